"""The page about the service: its commands are run against one, and its tables have every key there is."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from optsched.cli.main import parser
from optsched.server.access import digest_of, load_tokens
from optsched.server.caller import Role
from optsched.server.settings import Settings, load_settings
from tests.docs.pages import ROOT, blocks, files, first_cells
from tests.server.service import serving

PAGE = ROOT / "docs" / "service.md"


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """A service in a thread of its own; the addresses of the page, and those that it has here."""
    ready, found = threading.Event(), dict[str, str]()
    loop, over = asyncio.new_event_loop(), asyncio.Event()

    async def whole() -> None:
        async with serving(cluster=str(ROOT / "tests" / "server" / "data" / "racks.yaml")) as it:
            await it.racks("a b", "c d")
            found["127.0.0.1:7440"] = it.service.grpc_address
            found["127.0.0.1:7441"] = it.service.rest_address
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(whole()))
    thread.start()
    assert ready.wait(300)
    yield found
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


def block(name: str, addresses: dict[str, str] | None = None) -> str:
    """A block of the page by its name, with the addresses of here."""
    text = files(PAGE)[name]
    for shown, here in (addresses or {}).items():
        text = text.replace(shown, here)
    return text


def test_the_metrics_of_the_page_are_measured(addresses: dict[str, str]) -> None:
    """Every name in the table."""
    text = httpx.get(f"http://{addresses['127.0.0.1:7441']}/metrics", trust_env=False).text
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `optsched_")]
    names = [name.strip("` ") for row in rows for name in row.split("|")[1].split(",")]
    assert len(names) > 15
    for name in names:
        assert f"# TYPE {name} " in text, name


def test_a_token_made_as_the_page_says_has_the_digest_that_is_kept(tmp_path: Path) -> None:
    """The file without its last line break."""
    if shutil.which("openssl") is None or shutil.which("sha256sum") is None:
        pytest.skip("openssl or sha256sum is not installed")
    done = subprocess.run(
        ["bash", "-e", "-c", block("token")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    token = (tmp_path / "ada.token").read_text().strip()
    assert done.stdout.split()[0] == digest_of(token)


def test_the_files_of_the_page_are_right(tmp_path: Path) -> None:
    """Settings and tokens; the roles are those that there are."""
    for name in ("service.yaml", "tokens.yaml"):
        (tmp_path / name).write_text(files(PAGE)[name], encoding="utf-8")
    found = load_settings({}, {}, str(tmp_path / "service.yaml"))
    assert found.tokens == "/etc/optsched/tokens.yaml"
    tokens = load_tokens(str(tmp_path / "tokens.yaml"))
    roles = {known.role for known in (*tokens.by_digest.values(), *tokens.by_certificate.values())}
    assert roles == set(Role)
    assert first_cells(PAGE, "Who may call") == [role.value for role in Role]


def test_the_command_that_starts_it_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its flags are known."""
    command = block("serve").split()
    assert command[0] == "optsched"
    assert parser().parse_args(command[1:]).cluster == "h100-10k"


def test_the_table_of_settings_has_every_setting() -> None:
    """With its default and its sentence."""
    text = PAGE.read_text(encoding="utf-8")
    for key, field in Settings.model_fields.items():
        default = field.default
        shown = (
            str(default).lower()
            if isinstance(default, bool)
            else f"{default:g}"
            if isinstance(default, float)
            else default
        )
        cell = "" if default is None else f"`{shown}`"
        assert f"| `{key}` | {cell} | {field.description} |" in text, key
    assert first_cells(PAGE, "Configuration") == list(Settings.model_fields)


def test_no_block_is_left_that_nothing_runs() -> None:
    """Those that are run here by name, and drawings."""
    named = {each.file for each in blocks(PAGE) if each.language in ("bash", "python", "yaml")}
    assert named == {"serve", "service.yaml", "token", "tokens.yaml"}
