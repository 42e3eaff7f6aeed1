"""Practice problems of the chapter on many adapters."""

from calc.practice.multi_lora._bytes import header, pair, saved_embedding, stored
from calc.practice.multi_lora._slots import displaced, on_gpu, reserved, step_share
from calc.practice.multi_lora._traffic import levels, starts, tenants, three, touched

PROBLEMS = (  # easy to hard
    pair,
    stored,
    starts,
    saved_embedding,
    header,
    reserved,
    displaced,
    step_share,
    levels,
    on_gpu,
    touched,
    three,
    tenants,
)
