"""The page's modules as one script: only what is understood is joined, in the order of the imports."""

import pytest

from portico.web.bundle import NotUnderstood, join_modules

LEAF = 'export const one = 1;\nexport function two() {\n  return one + 1;\n}\nconst own = "own";\n'


def joined(**modules: str) -> str:
    return join_modules(
        {f"{name}.js": source for name, source in modules.items()}, "main.js", {"en": "/e.js"}
    )


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


def test_texts_are_loaded_from_their_addresses() -> None:
    assert 'import("/e.js")' in joined(main='const load = () => import("./texts/en.js");\n')


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
    with pytest.raises(NotUnderstood, match=r"main\.js"):
        joined(main=f"{line}\n", leaf=LEAF)


def test_modules_that_import_each_other_are_refused() -> None:
    with pytest.raises(NotUnderstood, match=r"a\.js imports main\.js"):
        joined(
            main='import { a } from "./a.js";\n', a='import { b } from "./main.js";\nexport const a = 1;\n'
        )


def test_a_missing_module_is_named() -> None:
    with pytest.raises(NotUnderstood, match=r"main\.js imports gone\.js"):
        joined(main='import { a } from "./gone.js";\n')
