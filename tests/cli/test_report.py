"""The HTML page: complete in itself, safe, with every policy in it, readable in a browser at any width and theme."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from optsched.cli.html.draw import Scale, round_ticks, time_ticks
from optsched.cli.html.gantt import gangs_of, spans_of
from optsched.cli.html.page import comparison_to_html
from optsched.cli.main import main
from optsched.sim.results import (
    Comparison,
    Gang,
    GangPromise,
    GangRun,
    GpuTime,
    Metrics,
    NodeMap,
    NodePlace,
    Preemptions,
    Promises,
    Quantiles,
    Result,
    Rounds,
    Series,
    Waits,
    to_json,
)

HOUR_S = 3600.0
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


def waits(name: str, p50: float, p90: float, p99: float) -> Waits:
    return Waits(name, 12, 1, Quantiles(12, p50, p50, p90, p99, p99), Quantiles(12, 1, 1, 1, 1, 1))


def result(policy: str = "optsched", nodes: int = 8) -> Result:
    """Two hours of a cluster of nodes of 8 GPUs, four to a rack, two racks to a block; one gang of 32 that moves."""
    gpus = nodes * 8
    metrics = Metrics(
        *(0.8, 0.7, 0.9, 0.8, 0.05, 0.2),
        jobs={"completed": 24},
        runs={},
        failures={},
        gpu_time=GpuTime(100, 70, 10, 5, 5, 5, 1, 1, 2, 1),
        busy_gpu_time=GpuTime(),
        lost_gpu_ms={},
        waits=(waits("all", 30, 600, 7200), waits("64-255", 600, 3000, 7200)),
        waits_by_team=(),
        preemptions=Preemptions(),
        spans=(),
        promises=Promises(2, 1, 1),
        rounds=Rounds(10, {"greedy": 10}, Quantiles(), 10),
    )
    series = Series(
        at_s=(0.0, HOUR_S, 2 * HOUR_S),
        places={"held": (0, 8, 0), "draining": (0, 0, 0), "down": (8, 8, 0)},
        tiers={"guaranteed": (8, 16, 16), "fair": (0, 8, 8), "opportunistic": (0, 0, 4)},
        queued_jobs=(0, 3, 1),
        queued_gpus=(0, 200, 16),
        fragmentation=(0.0, 0.2, 0.2),
        share_error=(0.0, 0.1, 0.0),
    )
    runs = (
        GangRun(600.0, HOUR_S, 32, "rack", "plan", {"b0": 32}),
        GangRun(HOUR_S, 2 * HOUR_S, 32, "cluster", "", {"b0": 16, "b1": 16}),
    )
    gang = Gang("big <one>", "lab", 32, 0.0, None, "running", runs, (GangPromise(0.0, "b0", 900.0),))
    places = tuple(
        NodePlace(f"n{index}", 8, {"block": f"b{index // 8}", "rack": f"b{index // 8}/r{index // 4}"})
        for index in range(nodes)
    )
    states = tuple("down" if index == 1 else "draining" if index == 2 else "up" for index in range(nodes))
    maps = tuple(
        NodeMap(at_s, tuple((index * 3) % 9 if index not in (1, 2) else 0 for index in range(nodes)), states)
        for at_s in (HOUR_S, 2 * HOUR_S)
    )
    return Result(
        *(policy, "about it", "a & b", "lab", "default", 0, "none", 2 * HOUR_S, gpus),
        *(metrics, series, (gang,), places, maps),
    )


def page(*results: Result) -> str:
    return comparison_to_html(Comparison(results or (result(), result("other"))))


class _Tags(HTMLParser):
    """Holds that what is opened is closed, in order."""

    VOID = ("meta", "input", "rect", "path", "circle")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.VOID or (tag in ("rect", "circle", "path") and self.get_starttag_text()[-2:] != "/>"):  # type: ignore[index]
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes what is not open"


def tags(text: str) -> _Tags:
    parser = _Tags()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    found = tags(page())
    assert "script" not in found.seen
    assert not {"link", "img", "iframe", "object"} & set(found.seen)
    assert not [value for name, value in found.attributes if name in ("src", "href", "srcset")]
    assert "http" not in page()
    assert "url(" not in page()
    assert "@import" not in page()


def test_names_are_escaped() -> None:
    text = page()
    assert "a &amp; b on lab" in text
    assert "big &lt;one&gt;" in text
    assert "big <one>" not in text


def test_every_policy_has_its_plots() -> None:
    text = page(result("first"), result("second"), result("third"))
    labels = re.findall(r'aria-label="([^"]*)"', text)
    for policy in ("first", "second", "third"):
        assert sum(label.endswith(f"under {policy}") for label in labels) == 4  # over time, gangs, two maps
    assert labels.count("waits by size of job, for every policy") == 1


def test_cells_of_the_map_are_as_full_as_the_nodes() -> None:
    text = page(result(nodes=8))
    first = text[text.index('class="map map0"') : text.index('class="map map1"')]
    # Booked by node: 0, down, draining, 0, 3, 6, 0, 3 of 8: shades of quarters, 3 of 8 is nearest to two quarters.
    cells = {kind: len(re.findall("M", path)) for path, kind in re.findall(r'<path d="([^"]*)" class="(\w+)"/>', first)}
    assert cells == {"down": 1, "off": 1, "h0": 3, "h2": 2, "h3": 1}


def test_nodes_in_no_domain_are_drawn_too() -> None:
    """Real fabrics are ragged: one node is in a block but in no rack, one in nothing at all."""
    whole = result(nodes=8)
    places = list(whole.nodes)
    places[3], places[4] = NodePlace("n3", 8, {"block": "b0"}), NodePlace("n4", 8, {})
    text = page(replace(whole, nodes=tuple(places)))
    tags(text)
    first = text[text.index('class="map map0"') : text.index('class="map map1"')]
    assert sum(len(re.findall("M", path)) for path in re.findall(r'<path d="([^"]*)"', first)) == 8


def test_what_is_missing_is_said() -> None:
    bare = replace(result(), gangs=(), maps=(), series=Series())
    text = page(bare)
    tags(text)
    assert "No gang was large enough" in text
    assert "No map was kept" in text
    assert "no samples" in text


def test_the_same_gangs_stand_in_every_plot_largest_first_chosen() -> None:
    gangs = tuple(Gang(f"g{n:02d}", "t", n, float(100 - n), None, "running", (), ()) for n in range(1, 40))
    chosen = gangs_of([replace(result(), gangs=gangs[:20]), replace(result(), gangs=gangs)])
    assert len(chosen) == 24
    assert chosen[0] == "g39"  # the 24 largest are g16 to g39; g39 came first
    assert spans_of([result()]) == ["rack", "cluster"]


def test_ten_thousand_gpus_stay_a_page_of_moderate_size() -> None:
    text = page(*(result(f"p{n}", nodes=1280) for n in range(4)))
    assert len(text) < 600_000


def test_scales_and_ticks() -> None:
    assert Scale(0, 10, 100, 200)(5) == 150
    assert Scale(1, 100, 0, 2, log=True)(10) == pytest.approx(1)
    assert Scale(0, 10, 0, 1)(50) == 1
    assert round_ticks(160) == [0, 50, 100, 150]
    assert round_ticks(0) == [0]
    assert [name for _, name in time_ticks(40 * HOUR_S)] == ["0 h", "12 h", "24 h", "36 h"]
    assert [name for _, name in time_ticks(9 * 86_400)] == ["0 d", "2 d", "4 d", "6 d", "8 d"]


def test_the_command_reads_what_simulate_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "results.json", tmp_path / "page.html"
    source.write_text(to_json(Comparison((result(),))))
    assert main(["report", str(source), "--out", str(target)]) == 0
    assert target.read_text().startswith("<!doctype html>")
    out, err = capsys.readouterr()
    assert (out, re.sub(r"\d+ kB", "N kB", err)) == ("", f"{target}: N kB written\n")
    assert main(["report", str(source)]) == 0
    assert capsys.readouterr().out == target.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "results.json: results: is missing; allowed: a list of one result or more"),
        ("[", "Invalid JSON"),
    ],
)
def test_what_is_no_result_is_refused(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results.json").write_text(text)
    assert main(["report", str(tmp_path / "results.json")]) == 2
    assert said in capsys.readouterr().err


PROBE = """<script>addEventListener("load", () => {
  const wide = [...document.querySelectorAll("svg text")].filter((text) => {
    const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
    return box.width && (box.x < -0.5 || box.x + box.width > view.width + 0.5);
  });
  const smallest = Math.min(...[...document.querySelectorAll("section:nth-of-type(2) svg")].map(
    (picture) => 10 * picture.getBoundingClientRect().width / 360));
  document.title = [document.documentElement.scrollWidth <= innerWidth, wide.length, smallest.toFixed(1),
    getComputedStyle(document.body).backgroundColor].join("|");
});</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [500, 1280])
def test_a_browser_shows_it_without_scrolling_sideways(width: int, dark: bool, tmp_path: Path) -> None:
    """500 is the narrowest window that Chromium has; nothing sticks out of a plot, and no plot's text is below 9 px."""
    path = tmp_path / "page.html"
    path.write_text(page().replace("</body>", PROBE + "</body>"))
    assert BROWSER is not None
    done = subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"),
            *(f"--user-data-dir={tmp_path}/profile", f"--window-size={width},900"),
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = re.search(r"<title>([^<]*)</title>", done.stdout)
    assert found is not None, done.stderr[-2000:]
    fits, outside, smallest, paper = found[1].split("|")
    assert fits == "true"
    assert outside == "0"
    assert float(smallest) >= 9
    assert paper == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")


def test_simulate_draws_the_shipped_day_where_no_trace_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    words = ["--policy", "fifo-best-fit", "--until", "90m", "--map-at", "1h", "--html", str(path)]
    assert main(["simulate", *words]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("philly-day on philly-160")
    assert f"{path}: " in err
    tags(path.read_text())
    assert main(["simulate", *words[:-1], str(tmp_path / "no" / "page.html")]) == 2
    assert "--html: " in capsys.readouterr().err
