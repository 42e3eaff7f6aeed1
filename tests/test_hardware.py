"""The accelerator catalogue: conventions, consistency with first principles, and errors."""

import re
from datetime import date

import pytest

from calc.hardware import (
    Accelerator,
    accelerator,
    accelerators,
    bandwidth_from_bus,
    dense_peak,
    one_direction,
    peak_from_clock,
)
from calc.sources import Figure, load_json
from calc.units import CalcError, parse

CHIPS = [accelerator(slug) for slug in accelerators()]
RAW = load_json("hardware.json")
REQUIRED = {"a100-40gb-sxm", "a100-80gb-sxm", "h100-sxm", "h100-pcie", "h200-sxm", "b200-sxm"} | {
    "l4",
    "l40s",
    "a10g",
    "rtx-4090",
    "mi300x",
    "tpu-v5e",
}

each_chip = pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.slug)


def figures(chip: Accelerator) -> list[Figure]:
    links = [figure for link in chip.links.values() for figure in (link.bytes_per_second, link.to_one_peer)]
    visible = [chip.visible_bytes] if chip.visible_bytes else []
    return [chip.memory_bytes, *visible, chip.bandwidth, *chip.peaks.values(), *links]


def test_catalogue_has_the_chips_of_the_book():
    assert set(accelerators()) >= REQUIRED
    assert len(accelerators()) >= 14


@each_chip
def test_every_figure_has_value_unit_and_origin(chip):
    for figure in figures(chip):
        assert figure.value > 0
        assert figure.unit in {"B", "B/s", "FLOP/s"}
        if figure.kind == "derived":
            assert figure.note
            continue
        assert figure.kind == "published"
        assert figure.source
        assert re.fullmatch(r"https://\S+", figure.url)
        assert date(2026, 1, 1) <= date.fromisoformat(figure.checked) <= date.today()


@each_chip
def test_half_the_figure_with_sparsity_is_the_dense_one(chip):
    """Both are printed for many chips. L40S's page contradicts itself by 1.2%, and says so in its note."""
    for element, entry in RAW["accelerators"][chip.slug]["peaks"].items():
        if "with_sparsity" not in entry:
            continue
        half = dense_peak(with_sparsity=parse(entry["with_sparsity"]).value)
        tolerance = 0.015 if "Disputed by its own source" in entry.get("note", "") else 0.0005
        assert chip.peak(element).value == pytest.approx(half, rel=tolerance)
        assert "sparsity" in chip.peak(element).note


@each_chip
def test_narrower_elements_are_faster(chip):
    """Integer units apart, which Blackwell Ultra gave up."""
    peaks = [chip.peaks[element].value for element in ("bf16", "fp8", "fp4") if element in chip.peaks]
    assert peaks == sorted(peaks)
    ratios = [after / before for before, after in zip(peaks, peaks[1:], strict=False)]
    assert all(1.9 < step < 3.2 for step in ratios)


@each_chip
def test_memory_is_the_label_in_decimal_or_binary_units(chip):
    """A driver's total lies between the label read as GB and a little above the label read as GiB."""
    label = int(re.match(r"\d+", chip.memory_as_sold)[0])
    assert 0.93 * label * 2**30 <= chip.memory_bytes.value <= label * 2**30
    if chip.visible_bytes:
        assert 0.97 * chip.memory_bytes.value < chip.visible_bytes.value < chip.memory_bytes.value


@each_chip
def test_link_speeds_are_for_one_direction(chip):
    for family, link in chip.links.items():
        entry = RAW["accelerators"][chip.slug]["links"][family]
        assert ("amount" in entry) != ("bidirectional" in entry), "either one direction is printed or both are"
        both = 2 * parse(entry["amount"]).value if "amount" in entry else parse(entry["bidirectional"]).value
        assert 2 * link.bytes_per_second.value == pytest.approx(both)
        assert ("counts both directions" in link.bytes_per_second.note) == ("bidirectional" in entry)
        assert link.to_one_peer.value <= link.bytes_per_second.value
        assert (link.role == "host") == (family == "pcie")


@pytest.mark.parametrize(
    ("name", "speed"), [("PCIe 4.0 x16", 32e9), ("PCIe 5.0 x16", 64e9), ("PCIe 6.0 x16", 128e9), ("NVLink 5", 900e9)]
)
def test_links_of_a_name_have_one_speed_however_it_is_printed(name, speed):
    found = [link for chip in CHIPS for link in chip.links.values() if link.name == name]
    assert found and all(link.bytes_per_second.value == speed for link in found)


def test_every_source_is_drawn_on():
    table = str(RAW["accelerators"])
    assert [key for key in RAW["sources"] if f"'source': '{key}'" not in table] == []


def test_a_note_claims_no_more_than_its_source_prints():
    """NVIDIA's aiconfigurator gives links in one direction and Blackwell's peaks without sparsity."""
    b200, h100, l4 = accelerator("b200-sxm"), accelerator("h100-pcie"), accelerator("l4")
    assert "sparsity" not in b200.peak("bf16").note + b200.peak("fp8").note
    assert "Half of" not in h100.link("pcie").bytes_per_second.note + l4.link("pcie").bytes_per_second.note
    assert accelerator("h200-sxm").peak("bf16").note.startswith("Half of 1979 TFLOP/s, which is printed with sparsity.")


@each_chip
def test_what_is_only_the_label_is_marked_and_nothing_else(chip):
    note = chip.memory_bytes.note
    assert chip.nominal == note.startswith("Nominal")
    assert chip.program_bytes.kind == ("assumed" if chip.nominal and chip.visible_bytes is None else "published")
    assert chip.program_bytes.value <= chip.memory_bytes.value


@each_chip
def test_a_link_says_how_many_chips_it_joins(chip):
    for link in chip.links.values():
        assert (link.joins is None) == (link.role == "host")
        if "bridge" in link.name:
            assert link.joins == 2


def test_h100_pcie_has_a_bridge_to_one_other_card():
    bridge = accelerator("h100-pcie").link("nvlink")
    assert (bridge.role, bridge.to_one_peer.value) == ("peer", 300e9)


def test_a_switch_gives_one_peer_everything_and_a_mesh_one_cable():
    assert accelerator("h100-sxm").link("nvlink").to_one_peer.value == 450e9
    mesh = accelerator("mi300x").link("infinity-fabric")
    assert mesh.bytes_per_second.value == 7 * mesh.to_one_peer.value == 448e9


@pytest.mark.parametrize(
    ("slug", "clock", "units", "fma"),
    [
        ("h100-sxm", 1830e6, 528, 512),
        ("a100-80gb-sxm", 1410e6, 432, 256),
        ("mi300x", 2100e6, 1216, 256),
        ("rtx-4090", 2520e6, 512, 64),  # with fp32 accumulation; 128 with fp16
    ],
)
def test_bf16_peak_follows_from_the_clock(slug, clock, units, fma):
    computed = peak_from_clock(clock=clock, matrix_units=units, fma_per_cycle=fma)
    assert computed == pytest.approx(accelerator(slug).peak("bf16").value, rel=0.001)


@pytest.mark.parametrize("slug", ["mi300x", "mi325x"])
@pytest.mark.parametrize("element", ["fp8", "int8"])
def test_cdna_3_multiplies_both_types_of_8_bits_at_twice_the_rate_of_bf16(slug, element):
    """The white paper gives each of 304 compute units 4,096 operations a cycle."""
    computed = peak_from_clock(clock=2100e6, matrix_units=304, fma_per_cycle=2048)
    assert accelerator(slug).peak(element).value == pytest.approx(computed, rel=0.0001)
    assert accelerator(slug).peak(element).value == pytest.approx(2 * accelerator(slug).peak("bf16").value, rel=0.0001)


def test_the_highest_clock_is_not_the_one_the_peak_is_quoted_for():
    computed = peak_from_clock(clock=1980e6, matrix_units=528, fma_per_cycle=512)
    assert computed > 1.08 * accelerator("h100-sxm").peak("bf16").value


def test_bandwidth_follows_from_the_bus():
    computed = bandwidth_from_bus(bus_bits=7680, clock=3996e6, transfers_per_cycle=2)
    assert computed == pytest.approx(accelerator("b200-sxm").bandwidth.value, rel=0.005)
    computed = bandwidth_from_bus(bus_bits=5120, clock=1593e6, transfers_per_cycle=2)
    assert computed == pytest.approx(accelerator("a100-80gb-sxm").bandwidth.value, rel=0.001)


@pytest.mark.parametrize(
    ("slug", "element", "printed"),
    [("a100-80gb-sxm", "bf16", 153), ("h100-sxm", "bf16", 295), ("tpu-v5e", "bf16", 240), ("l4", "bf16", 403)],
)
def test_ridge_point(slug, element, printed):
    """FLOP per byte at which peak and bandwidth balance, as found in print (Bekman; How To Scale Your Model)."""
    chip = accelerator(slug)
    assert chip.peak(element).value / chip.bandwidth.value == pytest.approx(printed, abs=0.6)


def test_ratios_that_everybody_quotes():
    h100, a100, h200 = accelerator("h100-sxm"), accelerator("a100-80gb-sxm"), accelerator("h200-sxm")
    assert h100.peak("bf16").value / a100.peak("bf16").value == pytest.approx(3.17, abs=0.01)
    assert h200.bandwidth.value / h100.bandwidth.value == pytest.approx(1.43, abs=0.005)
    assert h200.peak("bf16").value == h100.peak("bf16").value
    assert accelerator("a10g").peak("bf16").value < 0.6 * accelerator("a10").peak("bf16").value


def test_a_peak_the_chip_lacks_names_what_it_has():
    with pytest.raises(CalcError, match="A100 80GB SXM has no peak for 'fp8' on record: it has bf16, fp16, int8"):
        accelerator("a100-80gb-sxm").peak("fp8")


def test_a_link_the_chip_lacks_names_what_it_has():
    with pytest.raises(CalcError, match="no link 'nvlink': it has pcie"):
        accelerator("l4").link("nvlink")


@pytest.mark.parametrize("slug", ["h100", "H100-SXM", "h-100 sxm"])
def test_an_unknown_chip_offers_the_closest(slug):
    with pytest.raises(CalcError, match="did you mean .*h100-sxm"):
        accelerator(slug)


@pytest.mark.parametrize("slug", ["", "zzz", None, 7, ["h100-sxm"], "<b>" * 1000])
def test_nonsense_is_refused_briefly(slug):
    with pytest.raises(CalcError) as refusal:
        accelerator(slug)
    assert len(str(refusal.value)) < 400


def test_an_accelerator_cannot_be_changed():
    with pytest.raises(AttributeError):
        accelerator("l4").name = "L5"
    with pytest.raises(TypeError):
        accelerator("l4").peaks["fp64"] = accelerator("l4").peaks["bf16"]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "900e9", True])
def test_formulas_refuse_bad_numbers(value):
    with pytest.raises(CalcError, match="both_directions"):
        one_direction(both_directions=value)
