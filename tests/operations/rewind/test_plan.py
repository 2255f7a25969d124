"""The plan of a rewind, from rows alone. `m` is the actor that is rewound, `b` another one."""

import sys

import pytest

from portico.model.paths import TRASH
from portico.model.versions import Version
from portico.operations.rewind.locations import Location
from portico.operations.rewind.plan import Change, Plan, plan

FILE, FOLDER = Version(1, etag="old"), Version(is_folder=True)
LEFT = Version(2, etag="left")
K1, K2, K3 = (f"{number:024x}" for number in (1, 2, 3))


def at(path: str) -> Location:
    return ("c", *path.strip("/").split("/"))


def item(trash_id: str) -> Location:
    return ("c", TRASH, trash_id)


def m(action: str, path: str, target: str | Location = "", **fields: object) -> Change:
    place = target if isinstance(target, tuple) else at(target) if target else None
    fields = {"actor": "m", "is_mine": True, "outcome": "done", "at": 1, "after": LEFT, **fields}
    return Change(action=action, place=at(path), target=place, **fields)  # type: ignore[arg-type]


def b(action: str, path: str, target: str = "", **fields: object) -> Change:
    return m(action, path, target, actor="b", is_mine=False, **fields)


def planned(*changes: Change, kept: tuple[str, ...] = (K1, K2, K3), within: str = "") -> Plan:
    return plan(reversed(changes), kept, at(within) if within else ())


def shown(found: Plan) -> list[str]:
    return [
        " ".join([step.action, *("/".join(each[1:]) for each in (step.source, step.location) if each)])
        for step in found.steps
    ]


def left(found: Plan) -> list[tuple[str, str, str]]:
    return [("/".join(each.location[1:]), each.why, each.by) for each in found.left_alone]


UNDONE = {
    "a new file": ([m("upload", "f")], ["remove f"]),
    "a replaced file": ([m("upload", "f", before=FILE, kept=K1)], [f"restore {TRASH}/{K1} f"]),
    "ten writes to one file": (
        [m("upload", "f", before=FILE, kept=K1), *[m("upload", "f", before=LEFT, kept=K2)] * 9],
        [f"restore {TRASH}/{K1} f"],
    ),
    "a file that came and went": ([m("upload", "f"), m("delete", "f", before=LEFT, kept=K1)], []),
    "a deleted file": ([m("delete", "f", before=FILE, kept=K1)], [f"restore {TRASH}/{K1} f"]),
    "an empty folder that was deleted": ([m("delete", "d", before=FOLDER)], ["make d"]),
    "a deleted file, under whose name is another one": (
        [m("delete", "f", before=FILE, kept=K1), m("upload", "f")],
        [f"restore {TRASH}/{K1} f"],
    ),
    "deleted, then removed from the trash": (
        [m("delete", "f", before=FILE, kept=K1), m("trash.remove", "f", item(K1), kept=K1)],
        [f"restore {TRASH}/{K1} f"],
    ),
    "removed from the trash, where another one had put it": (
        [m("trash.remove", "f", item(K1), kept=K1)],
        [f"show {TRASH}/{K1}"],
    ),
    "a move": ([m("move", "f", "g")], ["move g f"]),
    "a move over a file": ([m("move", "f", "g", before=FILE, kept=K1)], ["move g f", f"restore {TRASH}/{K1} g"]),
    "a chain of moves": ([m("move", "f", "g"), m("move", "g", "h")], ["move h f"]),
    "there and back": ([m("move", "f", "g"), m("move", "g", "f")], []),
    "two that changed places": (
        [m("move", "f", "x"), m("move", "g", "f"), m("move", "x", "g")],
        ["move f f (set aside 1)", "move g f", "move f (set aside 1) g"],
    ),
    "a new file that was moved": ([m("upload", "f"), m("move", "f", "g")], ["remove g"]),
    "what was written into a folder that was then moved": (
        [m("upload", "d/f", before=FILE, kept=K1), m("move", "d", "e", after=FOLDER)],
        ["remove e/f", "move e d", f"restore {TRASH}/{K1} d/f"],
    ),
    "what was written into a folder that was then deleted": (
        [m("upload", "d/f"), m("delete", "d", before=FOLDER, kept=K1)],
        [f"restore {TRASH}/{K1} d", "remove d/f"],
    ),
    "moved into a new folder": ([m("mkdir", "d", after=FOLDER), m("move", "f", "d/f")], ["move d/f f", "tidy d"]),
    "moved out of a folder that was then deleted": (
        [m("move", "d/f", "g"), m("delete", "d", before=FOLDER, kept=K1)],
        [f"restore {TRASH}/{K1} d", "move g d/f"],
    ),
    "folders that an upload made": (
        [m("upload", "d/e/f", after=Version(2, etag="left", made_folders=2))],
        ["remove d/e/f", "tidy d/e", "tidy d"],
    ),
    "a copy": ([m("copy", "f", "g")], ["remove g"]),
    "a copied folder, into which something was moved": (
        [m("copy", "d", "e", after=FOLDER), m("move", "f", "e/f")],
        ["move e/f f (set aside 1)", "remove e", "move f (set aside 1) f"],
    ),
    "a copied folder, out of which something was moved": (
        [m("copy", "d", "e", after=FOLDER), m("move", "e/f", "g")],
        ["remove e", "remove g"],
    ),
    "deleted and restored": ([m("delete", "f", before=FILE, kept=K1), m("restore", f"{TRASH}/{K1}", "f")], []),
    "a restored file": ([m("restore", f"{TRASH}/{K1}", "f")], ["remove f"]),
    "an empty folder that was deleted and made again": (
        [m("delete", "d", before=FOLDER), m("mkdir", "d", after=FOLDER)],
        [],
    ),
    "a folder that was there": ([m("mkdir", "d", before=FOLDER)], []),
    "what had no effect": ([m("upload", "f", outcome="already-exists"), m("upload", "g", outcome="storage-full")], []),
}


@pytest.mark.parametrize("case", UNDONE)
def test_it_is_as_if_the_actor_had_never_acted(case: str) -> None:
    changes, steps = UNDONE[case]
    found = planned(*changes)
    assert (shown(found), left(found)) == (steps, [])


ENCRYPTED = m("upload", "d/f", before=FILE, kept=K1)
HALFWAY = {
    "a move": (m("move", "d", "x", outcome="interrupted", after=None), ["move x d"]),
    "a move of which nothing is known": (m("move", "d", "x", outcome="unknown", after=None), ["move x d"]),
    "a delete": (m("delete", "d", before=FOLDER, outcome="interrupted", kept=K2), [f"restore {TRASH}/{K2} d"]),
    "a merge": (m("move", "d", "x", before=FOLDER, outcome="interrupted"), []),
    "a restore": (m("restore", f"{TRASH}/{K2}", "d", outcome="interrupted"), []),
    "a copy": (m("copy", "e", "d", outcome="interrupted"), []),
}


@pytest.mark.parametrize("case", HALFWAY)
def test_what_stops_halfway_does_not_save_what_was_done_there_before(case: str) -> None:
    change, steps = HALFWAY[case]
    found = planned(ENCRYPTED, change)
    assert shown(found) == [*steps, f"restore {TRASH}/{K1} d/f"]
    assert [step.merges for step in found.steps] == [True] * len(steps) + [False]
    assert [why for _, why, _ in left(found)] == ([] if steps else ["not-known"])


def test_what_stops_halfway_is_left_alone_if_something_was_done_there_since() -> None:
    found = planned(ENCRYPTED, m("move", "d", "x", outcome="interrupted", after=None), m("upload", "x/g"))
    assert shown(found) == ["remove x/g", f"restore {TRASH}/{K1} d/f"]
    assert left(found) == [("x", "not-known", "")]


def test_a_restore_that_stopped_halfway_is_completed() -> None:
    found = planned(m("delete", "d", before=FOLDER, kept=K1), m("restore", f"{TRASH}/{K1}", "d", outcome="interrupted"))
    assert [(step.action, step.merges) for step in found.steps] == [("restore", True)]


@pytest.mark.parametrize("swapped", [False, True])
def test_the_effort_grows_with_the_changes(swapped: bool) -> None:
    def effort(number: int) -> int:
        changes = []
        for each in range(number):
            names = (f"d/a{each}", f"d/b{each}", f"d/c{each}")
            if swapped:
                changes += [m("move", names[0], names[2]), m("move", names[1], names[0]), m("move", *names[:0:-1])]
            else:
                changes += [m("move", *names[:2]), m("upload", names[0])]
        calls = 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count)
        try:
            planned(*changes)
        finally:
            sys.setprofile(None)
        return calls

    assert effort(200) < 2.5 * effort(100)


LEFT_ALONE = {
    "another one wrote it since": (
        [m("upload", "f", before=FILE, kept=K1), b("upload", "f", before=LEFT, kept=K2)],
        [("f", "conflict", "b")],
    ),
    "another one moved the folder": ([m("upload", "d/f"), b("move", "d", "e")], [("d/f", "conflict", "b")]),
    "another one added to the folder": ([m("mkdir", "d"), b("upload", "d/f")], [("d", "conflict", "b")]),
    "in another case": ([m("upload", "F"), b("upload", "f", before=LEFT, kept=K2)], [("F", "conflict", "b")]),
    "another one restored it": (
        [m("delete", "f", before=FILE, kept=K1), b("restore", f"{TRASH}/{K1}", "g")],
        [("f", "conflict", "b")],
    ),
    "nothing was kept": ([m("upload", "f", before=FILE)], [("f", "not-kept", "")]),
    "nothing was kept of the first of two": (
        [m("upload", "f"), m("delete", "f", before=FILE), m("upload", "g")],
        [("f", "conflict", "m"), ("f", "not-kept", "")],
    ),
    "unknown": ([m("upload", "f", outcome="unknown")], [("f", "not-known", "")]),
    "merged": ([m("copy", "d", "e", before=FOLDER, kept=K1)], [("e", "merged", "")]),
    "a copy that filled the disk": (
        [m("copy", "d", "e", outcome="storage-full", after=None)],
        [("e", "not-known", "")],
    ),
    "a merge that failed midway": (
        [m("copy", "d", "e", before=FOLDER, outcome="already-exists")],
        [("e", "not-known", "")],
    ),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_what_cannot_be_undone_is_left_alone_and_named(case: str) -> None:
    changes, expected = LEFT_ALONE[case]
    assert left(planned(*changes)) == expected


def test_a_folder_into_which_another_one_wrote_while_it_was_copied_is_left_alone() -> None:
    before, meanwhile = b("upload", "e/g", at=1), b("upload", "e/f", at=5)
    copied = m("copy", "d", "e", after=FOLDER, began=3, at=9)
    assert shown(planned(before, copied)) == ["remove e"]
    assert left(planned(before, meanwhile, copied)) == [("e", "conflict", "b")]


def test_what_another_one_did_before_is_brought_back() -> None:
    found = planned(b("upload", "f", before=FILE, kept=K1), m("upload", "f", before=LEFT, kept=K2))
    assert (shown(found), left(found)) == ([f"restore {TRASH}/{K2} f"], [])


def test_what_the_trash_has_lost_is_named_and_what_is_there_stays() -> None:
    found = planned(m("upload", "f", before=FILE, kept=K1), m("upload", "g"), kept=())
    assert (shown(found), left(found)) == (["remove g"], [("f", "not-kept", "")])


def test_what_the_trash_has_lost_stays_also_in_a_folder_that_was_moved() -> None:
    changes = [m("upload", "d/f", before=FILE, kept=K1), m("upload", "d/f", before=LEFT, kept=K2)]
    found = planned(*changes, m("move", "d", "e", after=FOLDER), kept=(K2,))
    assert (shown(found), left(found)) == (["move e d"], [("d/f", "not-kept", "")])


def test_only_a_folder() -> None:
    found = planned(
        m("upload", "d/f"),
        m("upload", "e"),
        m("move", "d/g", "h"),
        m("trash.remove", "e", item(K1), kept=K1),
        m("trash.remove", "d/e", item(K2), kept=K2),
        within="d",
    )
    assert shown(found) == ["remove d/f", f"show {TRASH}/{K2}"]
    assert left(found) == [("h", "outside", "")]
    assert left(planned(m("move", "d", "e", after=FOLDER), within="d/f")) == [("e", "outside", "")]


def test_only_what_the_actor_left_is_removed() -> None:
    [step] = planned(m("upload", "f", after=FILE), m("upload", "f", before=FILE, kept=K1, after=LEFT)).steps
    assert step.left == LEFT
