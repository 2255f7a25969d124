"""The documents: what they link to is there, and they name no package that is not released."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").glob("*.md")])


def anchors(page: Path) -> set[str]:
    """Of each heading, as it is made by those who show Markdown."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        leads_to = (page.parent / file).resolve() if file else page
        assert leads_to.exists(), target
        assert not anchor or anchor in anchors(leads_to), target
    assert "@@" not in page.read_text(), "a figure is missing"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_installed_from_an_index_that_does_not_have_it(page: Path) -> None:
    """Somebody else could have put a package of that name there. To add an extra to what is installed is no such case."""
    for line in re.findall(r"pip install ['\"]?portico-gateway[^\n]*", page.read_text()):
        assert " @ " in line or "adds an extra to it" in line, line


def test_the_key_is_kept_apart_in_every_advice() -> None:
    for page in ("README.md", "SECURITY.md", "docs/accounts.md", "docs/command-line.md"):
        assert "backup.md#what-to-keep" in (CHECKOUT / page).read_text(), page
