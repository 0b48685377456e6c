"""The library of single decisions that may lie beside the checkout: each with the outcome that it must have."""

from __future__ import annotations

import pytest

from tests.planner.judged import CASES, faults_of, single_decisions


@pytest.mark.skipif(not CASES.is_dir(), reason="the cases do not lie beside this checkout")
@pytest.mark.parametrize("file", single_decisions(), ids=lambda file: file.stem)
def test_the_case_comes_out_as_it_must(file):
    """States, placements and victims of the plan are those that the file expects."""
    assert faults_of(file) == []
