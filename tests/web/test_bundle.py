"""Bundling: modules are joined in dependency order, and unsupported syntax is refused."""

import pytest

from portico.web.bundle import BundleError, join_modules

LEAF = 'export const one = 1;\nexport function two() {\n  return one + 1;\n}\nconst own = "own";\n'


def joined(**modules: str) -> str:
    sources = {f"{name}.js": source for name, source in modules.items()}
    return join_modules(sources, "main.js", {"en": "/e.js"})


def test_a_module_comes_after_what_it_imports_and_gives_only_what_it_exports() -> None:
    script = joined(
        main='import * as all from "./middle.js";\nimport { one } from "./leaf.js";\nawait all.run(one);\n',
        middle='import { one, two } from "./leaf.js";\nexport async function run() {\n  two(one);\n}\n',
        leaf=LEAF,
        unused="export const never = 1;\n",
    )
    assert script == (
        "// leaf.js\nconst $leaf = (() => {\nconst one = 1;\nfunction two() {\n  return one + 1;\n}\n"
        'const own = "own";\nreturn { one, two };\n})();\n\n'
        "// middle.js\nconst $middle = (() => {\nconst { one, two } = $leaf;\nasync function run() {\n  two(one);\n}\n"
        "return { run };\n})();\n\n"
        "// main.js\n{\nconst all = $middle;\nconst { one } = $leaf;\nawait all.run(one);\n}\n"
    )


def test_comments_with_lines_of_their_own_are_left_out() -> None:
    script = joined(
        main="/** What\n * it is */\n\nconst a = /** @type {any} */ (1); // one\n  // why\n"
        '  /** @param {string} b */ const c = "// d";\n'
    )
    assert script == (
        '// main.js\n{\n\nconst a = /** @type {any} */ (1); // one\n  /** @param {string} b */ const c = "// d";\n}\n'
    )


def test_messages_are_imported_by_address() -> None:
    assert 'import("/e.js")' in joined(main='const load = () => import("./messages/en.js");\n')


def test_imports_are_resolved_relative_to_their_module() -> None:
    sources = {
        "main.js": 'import { b } from "./ui/b-c.js";\n',
        "ui/b-c.js": 'import { leaf } from "../leaf.js";\nimport { d } from "./d.js";\nexport const b = 1;\n',
        "ui/d.js": "export const d = 1;\n",
        "leaf.js": "export const leaf = 1;\n",
    }
    script = join_modules(sources, "main.js", {})
    assert [line for line in script.splitlines() if line.startswith("// ")] == [
        "// leaf.js",
        "// ui/d.js",
        "// ui/b-c.js",
        "// main.js",
    ]
    assert "const { leaf } = $leaf;\nconst { d } = $ui$d;\n" in script
    assert "const { b } = $ui$b_c;" in script


def test_an_import_from_outside_the_page_is_refused() -> None:
    with pytest.raises(BundleError, match=r"main\.js imports \.\./other\.js"):
        joined(main='import { a } from "../other.js";\n')


@pytest.mark.parametrize(
    "line",
    [
        'import "./leaf.js";',
        'import leaf from "./leaf.js";',
        'import { one as other } from "./leaf.js";',
        'import { one } from "/leaf.js";',
        'import { one } from "./leaf.js"',
        "export let count = 0;",
        "export default {};",
        "export { one };",
        'export * from "./leaf.js";',
    ],
)
def test_other_forms_are_refused(line: str) -> None:
    with pytest.raises(BundleError, match=r"main\.js"):
        joined(main=f"{line}\n", leaf=LEAF)


def test_modules_that_import_each_other_are_refused() -> None:
    with pytest.raises(BundleError, match=r"a\.js imports main\.js"):
        joined(main='import { a } from "./a.js";\n', a='import { b } from "./main.js";\nexport const a = 1;\n')


def test_a_missing_module_is_named() -> None:
    with pytest.raises(BundleError, match=r"main\.js imports gone\.js"):
        joined(main='import { a } from "./gone.js";\n')
