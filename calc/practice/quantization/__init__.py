"""Practice problems of the quantization chapter."""

from calc.practice.quantization._bytes import block_scales, gguf_file, mixture, one_matrix, times_smaller, whole_model
from calc.practice.quantization._speed import crossover, room, service, slow_loop, step_gain

PROBLEMS = (  # easy to hard
    one_matrix,
    block_scales,
    slow_loop,
    whole_model,
    times_smaller,
    mixture,
    gguf_file,
    crossover,
    step_gain,
    room,
    service,
)
