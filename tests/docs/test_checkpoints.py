"""The numbers of docs/checkpoints.md that no command prints are worked out anew."""

from __future__ import annotations

import json
import math

import pytest

from optsched.cli.main import main
from optsched.policy.checkpoint import SMALL_COST, daly_s, exact_s, waste, young_s
from optsched.policy.checkpoint_tiers import FAILURE_KINDS
from optsched.policy.mtbf import PUBLISHED, job_mtbf_s, job_nodes
from tests.docs.pages import ROOT, first_cells

PAGE = ROOT / "docs" / "checkpoints.md"
TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())


def rows(first: str) -> list[list[str]]:
    """Return the cells of the table whose first heading this is."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip(" `") for cell in line.strip("|").split("|")])
    return found


def value(cell: str) -> float:
    return float(cell.split()[0].replace(",", ""))


CASES = rows("case")


@pytest.mark.parametrize("cells", CASES, ids=[cells[0] for cells in CASES])
def test_the_table_of_formulas_is_right(cells: list[str]) -> None:
    """To the second."""
    _, cost, mtbf, young, daly, exact = cells
    cost_s, mtbf_s = value(cost), value(mtbf)
    assert value(young) == round(young_s(cost_s, mtbf_s))
    assert value(daly) == round(daly_s(cost_s, mtbf_s))
    assert value(exact) == round(exact_s(cost_s, mtbf_s))


def test_the_table_of_presets_is_right() -> None:
    """All of them, as the code has them, with their sources."""
    found = rows("preset")
    assert [cells[0] for cells in found] == list(PUBLISHED)
    for name, gpu_h, node_h, job_h, source in found:
        rate = PUBLISHED[name]
        assert value(gpu_h) == round(rate.gpu_h / rate.failures)
        assert value(node_h) == round(rate.node_mtbf_h(8))
        assert value(job_h) == round(job_mtbf_s(rate.node_mtbf_h(8), job_nodes(10_240, 8)) / 3600, 2)
        assert source == rate.source or name == "rsc1-small-jobs"


def test_the_worked_example_of_dalys_model_is_right() -> None:
    """By the closed form, written out again here."""
    interval_s, mtbf_s = daly_s(30, 8437.5), 8437.5
    stretch = mtbf_s * math.exp(300 / mtbf_s) * math.expm1((interval_s + 30) / mtbf_s) / interval_s
    assert f"8,437.5 · e^{300 / mtbf_s:.5f} · (e^{(interval_s + 30) / mtbf_s:.5f} − 1) / {interval_s:.1f}" in TEXT
    assert f"= {stretch:.4f}, so 24 hours of training take {24 * stretch:.1f} hours" in TEXT
    assert f"{1 - 1 / stretch:.1%}".replace("%", " %") in TEXT
    assert waste(interval_s, 30, mtbf_s, 300).total == pytest.approx(1 - 1 / stretch)


def test_what_the_page_says_of_small_costs_is_so() -> None:
    """At δ = 0.1 % of M, the largest."""
    assert SMALL_COST == 0.001
    young, exact = young_s(SMALL_COST, 1), exact_s(SMALL_COST, 1)
    assert young / exact == pytest.approx(1.015, abs=0.0005)
    assert waste(young, SMALL_COST, 1).total - waste(exact, SMALL_COST, 1).total == pytest.approx(5e-6, abs=5e-7)


def test_the_worked_example_of_tiers_is_right() -> None:
    """Their intervals before rounding."""
    mtbf_s = job_mtbf_s(PUBLISHED["llama3"].node_mtbf_h(8), 512)
    ram, durable = (math.sqrt(2 * c * mtbf_s / FAILURE_KINDS[kind]) for c, kind in ((2, "process"), (30, "node")))
    assert f"√(2·2·{mtbf_s:,.0f}/0.36) = {ram:,.0f} s" in TEXT
    assert f"√(2·30·{mtbf_s:,.0f}/0.64) = {durable:,.0f} s for `durable`: {durable / ram:.1f} times" in TEXT


def test_every_key_of_the_json_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """And every key within."""
    assert main(["checkpoint-interval", "--gpus", "8", "--preset", "rsc1", "--cost-s", "9", "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert first_cells(PAGE, "For scripts") == list(made)
    inner = [made[key] for key in ("job", "mtbf", "waste", "formulas")] + [made["tiers"][0], made["what_if"][0]]
    assert [key for entry in inner for key in entry if f"`{key}`" not in TEXT] == []
