"""Blocks, tables and prefixes: vLLM's own counts, hand-derived addresses, and a machine that tries to break them."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from calc import paging
from calc.paging import BlockPool, BlockTable, LayerPages, Medium, OutOfBlocks, PagingError, block_keys
from calc.panel import render
from calc.sources import load_json
from calc.units import CalcError

FIXTURES = Path(__file__).parent / "fixtures"
COUNT = st.integers(1, 5000)


def recorded(name):
    return json.loads((FIXTURES / f"vllm_0.32.0_{name}.json").read_text())


# --- against vLLM's own records: its schedule goes in, its blocks come out ---

PREFIX = list(range(1000))
PROMPTS = {
    "prefix_cache": {
        "p0": [*PREFIX, *range(2000, 2050)],
        "p1": [*PREFIX, *range(3000, 3050)],
        "p2": [*PREFIX, *range(2000, 2050)],
        "p3": PREFIX,
        "p4": PREFIX[:992],
    },
    "preempt": {name: None for name in "ABC"},  # no prefix caching: content does not matter
}


@pytest.mark.parametrize("name", PROMPTS)
def test_blocks_and_hits_equal_vllm(name):
    record = recorded(name)
    size = record["config"]["block_size"]
    pool = BlockPool(record["config"]["num_blocks"], block_tokens=size)
    tables = {}
    for step in record["steps"]:
        for gone in step["preempted"]:
            tables.pop(gone).free()
        for request, count in step["scheduled"].items():
            prompt = PROMPTS[name][request]
            keys = block_keys(prompt, block_tokens=size) if prompt else []
            if request not in tables:
                tables[request] = BlockTable(pool)
                tables[request].adopt(pool.match(keys, positions=len(prompt or [0])))
                assert tables[request].positions == step["computed_before"][request]
            tables[request].write(count, keys)
            assert len(tables[request].blocks) == step["blocks"][request]
        assert pool.free_blocks == step["free_blocks"]
        for gone in step["finished"]:
            tables.pop(gone).free()
    assert pool.free_blocks == pool.usable


def test_hit_law_equals_vllm():
    record = recorded("prefix_cache")
    hits = {r: h for step in record["steps"] for r, h in step["cached_hit"].items()}
    for request in ("p2", "p3", "p4"):  # whole prompts known before
        prompt = len(PROMPTS["prefix_cache"][request])
        assert hits[request] == paging.hit_positions(prompt=prompt, block_tokens=16)


# --- hits ---


@given(COUNT, st.sampled_from([1, 8, 16, 128, 1056, 2096, 8304]), st.integers(0, 2))
def test_hit_law_equals_a_match(prompt, block_tokens, dropped):
    pool = BlockPool(prompt // block_tokens + 3, block_tokens=block_tokens)
    keys = block_keys(range(prompt), block_tokens=block_tokens)
    table = BlockTable(pool)
    table.write(prompt, keys)
    found = pool.match(keys, positions=prompt, dropped_blocks=dropped)
    law = paging.hit_positions(prompt=prompt, block_tokens=block_tokens, dropped_blocks=dropped)
    assert len(found) * block_tokens == law < prompt


@pytest.mark.parametrize(
    "other",
    [{"adapter": "a"}, {"salt": "s"}, {"media": [Medium("cat", 3, 6)]}],
    ids=["adapter", "salt", "medium"],
)
def test_whatever_changes_the_cache_changes_every_later_key(other):
    tokens = list(range(40))
    plain, changed = block_keys(tokens, block_tokens=8), block_keys(tokens, block_tokens=8, **other)
    assert len(plain) == len(changed) == 5
    assert not set(plain) & set(changed)


def test_a_medium_is_told_by_content_and_place_and_leaves_earlier_blocks_alone():
    tokens = [7] * 40
    cat = block_keys(tokens, block_tokens=8, media=[Medium("cat", 17, 4)])
    assert cat[:2] == block_keys(tokens, block_tokens=8)[:2]
    for other in (Medium("dog", 17, 4), Medium("cat", 18, 4)):
        changed = block_keys(tokens, block_tokens=8, media=[other])
        assert changed[:2] == cat[:2]
        assert not set(changed[2:]) & set(cat[2:])


def test_keys_do_not_depend_on_when_they_are_made():
    tokens, keys = list(range(100)), []
    for end in (5, 16, 17, 64, 100):
        paging.extend_keys(keys, tokens[:end], block_tokens=16)
    assert keys == block_keys(tokens, block_tokens=16)


def test_eviction_takes_the_least_recently_used_prefix_from_its_end():
    pool = BlockPool(7, block_tokens=1)
    keys = {name: block_keys([ord(name), 1, 2], block_tokens=1) for name in "ab"}
    tables = {name: BlockTable(pool) for name in "ab"}
    for name in "ab":
        tables[name].write(3, keys[name])
    tables["a"].free()
    tables["b"].free()
    assert pool.free_blocks == pool.usable == pool.known_blocks == 6
    held = pool.allocate(1)
    assert pool.evictions == 1
    assert len(pool.match(keys["a"], positions=4)) == 2  # the end of a, which was let go first
    assert len(pool.match(keys["b"], positions=4)) == 3
    pool.free(held)
    assert pool.allocate(1) == held  # nothing is lost by using it again
    assert pool.evictions == 1


def test_a_change_of_weights_forgets_every_prefix():
    pool = BlockPool(9, block_tokens=2)
    table, keys = BlockTable(pool), block_keys(range(8), block_tokens=2)
    table.write(8, keys)
    pool.forget_all()
    assert pool.match(keys, positions=9) == []
    assert pool.known_blocks == 0
    table.free()
    assert pool.free_blocks == pool.usable


# --- waste ---


@given(COUNT, st.integers(1, 300))
def test_only_the_last_block_is_ever_partly_empty(positions, block_tokens):
    table = BlockTable(BlockPool(positions // block_tokens + 3, block_tokens=block_tokens))
    table.write(positions)
    unused = paging.unused_positions(positions=positions, block_tokens=block_tokens)
    assert len(table.blocks) * block_tokens - positions == unused < block_tokens
    share = paging.table_utilization(positions=positions, block_tokens=block_tokens)
    assert share == pytest.approx(positions / (positions + unused))
    assert share > paging.reservation_utilization(positions=positions, reserved=positions + block_tokens)


@given(st.integers(0, 200), st.integers(1, 6), st.integers(1, 20), st.integers(1, 30))
def test_fork_saving_equals_what_the_pool_counts(prompt, sequences, block_tokens, more):
    def held(share):
        pool = BlockPool(2000, block_tokens=block_tokens)
        first = BlockTable(pool)
        first.write(prompt)
        tables = [first, *(first.fork() if share else BlockTable(pool) for _ in range(sequences - 1))]
        for table in tables:
            table.write(prompt + more - table.positions)
        return pool.usable - pool.free_blocks

    saving = paging.fork_saving(prompt=prompt, sequences=sequences, block_tokens=block_tokens)
    assert held(share=False) - held(share=True) == saving


# --- addresses ---


@pytest.mark.parametrize("arrangement", ["planes", "pairs"])
def test_addresses_equal_numpy(arrangement):
    blocks, size, heads, dim = 5, 4, 3, 8
    pages = LayerPages(
        base=4096,
        blocks=blocks,
        block_tokens=size,
        kv_heads=heads,
        head_dim=dim,
        element_bytes=2,
        arrangement=arrangement,
    )
    memory = np.zeros(pages.total_bytes // 2, dtype=np.float16)
    if arrangement == "planes":
        keys, values = memory.reshape(2, blocks, size, heads, dim)
    else:
        both = memory.reshape(blocks, size, heads, 2, dim)
        keys, values = both[..., 0, :], both[..., 1, :]
    start = memory.__array_interface__["data"][0]
    for block, offset, head in np.ndindex(blocks, size, heads):
        for view, address in ((keys, pages.key), (values, pages.value)):
            expected = view[block, offset, head].__array_interface__["data"][0] - start + 4096
            assert address(block=block, offset=offset, head=head) == expected


def test_a_position_is_walked_to_its_bytes():
    pool = BlockPool(100, block_tokens=16)
    pool.allocate(6)
    table = BlockTable(pool)
    table.write(40)
    place = table.locate(35)
    assert place == (2, 3, 9)  # 35 = 2 · 16 + 3; six blocks are taken, so the third of this table is block 9
    pages = LayerPages(base=0, blocks=100, block_tokens=16, kv_heads=8, head_dim=128, element_bytes=2)
    assert pages.key(block=place.block, offset=place.offset) == (9 * 16 + 3) * 8 * 128 * 2
    assert pages.value(block=place.block, offset=place.offset) == (100 * 16 + 9 * 16 + 3) * 8 * 128 * 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: BlockPool(1), "at least 2"),
        (lambda: BlockPool(8, block_tokens=0), "at least 1"),
        (lambda: BlockPool(8).allocate(8), "7 free: preempt"),
        (lambda: BlockPool(8).free([3]), "not held"),
        (lambda: BlockPool(8).share([3]), "allocate it instead"),
        (lambda: BlockPool(8).publish(3, b"key"), "is free"),
        (lambda: BlockTable(BlockPool(8)).locate(0), "not in the table"),
        (lambda: LayerPages(base=0, blocks=0, block_tokens=1, kv_heads=1, head_dim=1, element_bytes=1), "blocks is 0"),
    ],
)
def test_misuse_is_named_with_its_remedy(wrong, message):
    with pytest.raises(CalcError, match=message):
        wrong()


def test_a_table_in_use_adopts_nothing():
    table = BlockTable(BlockPool(8, block_tokens=2))
    table.write(3)
    with pytest.raises(PagingError, match="free it first"):
        table.adopt([])


# --- a machine that tries to lose, double-free or overwrite a block ---


class Paging(RuleBasedStateMachine):
    """Forks, writes, matches and frees, with a memory beside them.

    A cell of the memory holds what attention would have put there: a value that depends on every token
    before it and on the adapter. If a block were lost, handed out twice, written while shared or matched
    wrongly, some table would read back another value.
    """

    tables = Bundle("tables")

    def __init__(self):
        super().__init__()
        self.pool = BlockPool(10, block_tokens=3)
        self.memory = {}
        self.live = {}
        self.names = 0

    def keys(self, text):
        return block_keys(text[1], block_tokens=3, adapter=text[0])

    def add(self, table, text):
        self.names += 1
        self.live[self.names] = (table, text)
        return self.names

    def extend(self, name, more, publish):
        table, (adapter, tokens) = self.live[name]
        text = (adapter, (*tokens, *more))
        start, before = table.positions, (list(table.blocks), self.pool.free_blocks)
        try:
            copies = table.write(len(text[1]) - start, self.keys(text) if publish else ())
        except OutOfBlocks:
            assert (table.blocks, self.pool.free_blocks) == before
            assert table.positions == start
            return False
        for copy in copies:
            for offset in range(3):
                self.memory[copy.target, offset] = self.memory.get((copy.source, offset))
        for position in range(start, table.positions):
            _, offset, block = table.locate(position)
            assert self.pool.references[block] == 1  # never written while shared
            self.memory[block, offset] = (text[0], text[1][: position + 1])
        self.live[name] = (table, text)
        return True

    @rule(
        target=tables, adapter=st.sampled_from([None, "a"]), prompt=st.lists(st.integers(0, 1), min_size=1, max_size=9)
    )
    def start(self, adapter, prompt):
        text = (adapter, tuple(prompt))
        table = BlockTable(self.pool)
        table.adopt(self.pool.match(self.keys(text), positions=len(prompt)))
        assert table.positions < len(prompt)
        name = self.add(table, (adapter, text[1][: table.positions]))
        if not self.extend(name, prompt[table.positions :], publish=True):
            table.free()
            self.live[name] = (table, (adapter, ()))
        return name

    @rule(name=tables, more=st.lists(st.integers(0, 1), min_size=1, max_size=5), publish=st.booleans())
    def write(self, name, more, publish):
        self.extend(name, more, publish)

    @rule(target=tables, name=tables)
    def fork(self, name):
        table, text = self.live[name]
        return self.add(table.fork(), text)

    @rule(name=tables, more=st.integers(1, 7))
    def reserve(self, name, more):
        table, _ = self.live[name]
        if table.missing(table.positions + more) <= self.pool.free_blocks:
            table.reserve(table.positions + more)

    @rule(name=consumes(tables))
    def finish(self, name):
        table, _ = self.live.pop(name)
        blocks = list(table.blocks)
        table.free()
        for block in blocks:
            if self.pool.references[block] == 0:
                with pytest.raises(PagingError, match="not held"):
                    self.pool.free([block])

    @precondition(lambda self: self.pool.free_blocks < self.pool.usable)
    @rule()
    def forget(self):
        self.pool.forget_all()

    @invariant()
    def every_block_is_held_or_free(self):
        held = [0] * 10
        for table, _ in self.live.values():
            assert len(set(table.blocks)) == len(table.blocks)
            for block in table.blocks:
                held[block] += 1
        assert held == self.pool.references
        assert held[paging.NULL_BLOCK] == 0
        assert sum(count == 0 for count in held[1:]) == self.pool.free_blocks

    @invariant()
    def every_table_reads_back_what_it_wrote(self):
        for table, (adapter, tokens) in self.live.values():
            assert table.positions == len(tokens)
            for position in range(len(tokens)):
                _, offset, block = table.locate(position)
                assert self.memory[block, offset] == (adapter, tokens[: position + 1])


TestPaging = Paging.TestCase
TestPaging.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


# --- the panel ---

INPUTS = {
    "model": "llama-3.1-70b",
    "element": "bf16",
    "ranks": 8,
    "pool_gib": 40,
    "block_tokens": 16,
    "positions": 1300,
    "reserved": 8192,
    "drafter": "none or n-gram",
}


def panel(**changes):
    return json.loads(render("calc.paging:paging_panel", json.dumps(INPUTS | changes)))


@pytest.mark.parametrize(
    ("changes", "place", "fit", "found", "says"),
    [
        ({}, "entry 81 of the table, place 3", "799 against 128", "1,296 positions", "6.24 times as many"),
        ({"drafter": "EAGLE or MTP"}, "entry 81 of the table, place 3", "799 against 128", "1,280 positions", "6.24"),
        ({"block_tokens": 2096}, "entry 0 of the table, place 1,299", "500 against 128", "0 positions", "all of it is"),
        ({"reserved": 1400}, "entry 81 of the table, place 3", "799 against 748", "1,296 positions", "51 more than"),
        ({"reserved": 1300}, "entry 81 of the table, place 3", "799 against 806", "1,296 positions", "fewer than"),
        (
            {"block_tokens": 1, "reserved": 1300},
            "entry 1,299 of the table, place 0",
            "806 against 806",
            "1,299",
            "as many as",
        ),
        ({"positions": 16384, "reserved": 131072, "pool_gib": 1}, "entry 1,023", "1 against 0", "16,368", "hold none"),
        (
            {"positions": 16384, "reserved": 131072, "pool_gib": 1, "ranks": 1},
            "entry 1,023",
            "0 against 0",
            "16,368",
            "not one",
        ),
    ],
)
def test_panel_numbers(changes, place, fit, found, says):
    answer = panel(**changes)
    rows = {row["label"]: row["text"] for row in answer["rows"]}
    assert rows["The newest position"].startswith(place)
    assert rows["Sequences that fit, blocks against reservations"] == fit
    assert rows["Found if the same prompt comes again"].startswith(found)
    assert says in answer["meaning"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reserved": 1299}, "raise it"),
        ({"drafter": "any"}, "use one of"),
        ({"block_tokens": 0}, "block_tokens"),
        ({"pool_gib": 0}, "pool_gib"),
    ],
)
def test_panel_names_what_is_impossible(changes, message):
    answer = panel(**changes)
    assert not answer["ok"]
    assert message in answer["error"]


# --- shares ---


@given(st.integers(1, 50), st.integers(1, 20), st.integers(1, 50), st.sampled_from([1, 4, 16]))
def test_sharing_saving_is_what_forks_save(full_blocks, sequences, more_blocks, block_tokens):
    prompt, whole = full_blocks * block_tokens, (full_blocks + more_blocks) * block_tokens
    saved = paging.fork_saving(prompt=prompt, sequences=sequences, block_tokens=block_tokens)
    share = paging.sharing_saving(shared=prompt / whole, sequences=sequences)
    assert share == pytest.approx(saved / (sequences * whole / block_tokens))


@given(st.integers(0, 10_000), st.integers(1, 3000))
def test_entry_and_place_give_the_position_back(position, block_tokens):
    entry = paging.logical_block(position=position, block_tokens=block_tokens)
    place = paging.block_offset(position=position, logical_block=entry, block_tokens=block_tokens)
    assert 0 <= place < block_tokens
    assert entry * block_tokens + place == position


def test_recorded_walk_that_ships_is_the_recording():
    shipped, record = load_json("prefix_cache_walk.json"), recorded("prefix_cache")
    assert {
        name: [t for start, end in ranges for t in range(start, end)] for name, ranges in shipped["prompts"].items()
    } == PROMPTS["prefix_cache"]
    busy = [step for step in record["steps"] if step["scheduled"]]
    same = ("step", "scheduled", "blocks", "free_blocks", "finished")
    assert [{k: s[k] for k in same} | {"hit": s["cached_hit"]} for s in busy] == [
        {k: s[k] for k in (*same, "hit")} for s in shipped["steps"]
    ]


@pytest.mark.parametrize(
    ("tokens", "block_tokens", "message"),
    [
        ([1, 2], 0, "block_tokens is 0"),
        ([1, 2], -1, "block_tokens is -1"),
        (["a", 2], 2, "tokens 0 to 1 are not all whole numbers of 64 bits"),
        ([1, 2, 1.5, 2], 2, "tokens 2 to 3 are not all"),
        ([1, 2**70], 2, "tokens 0 to 1 are not all"),
    ],
)
def test_blocks_that_cannot_be_named_are_refused(tokens, block_tokens, message):
    with pytest.raises(CalcError, match=message):
        paging.block_keys(tokens, block_tokens=block_tokens)
