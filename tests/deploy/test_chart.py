"""The Helm chart: its values, their schema and its templates belong together."""

import copy
import json
import re
import shlex
from itertools import pairwise
from typing import Any

import jsonschema
import pytest
import yaml

from portico import RELEASE

from .files import CHART, CHECKOUT, HOME, PORT, USER, parsed

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES: dict[str, Any] = parsed("helm/portico/values.yaml")
TEMPLATES = {file.name: file.read_text() for file in (CHART / "templates").iterdir()}
GUIDE = (CHECKOUT / "docs" / "deploy.md").read_text()
INSTALLATIONS = [line for line in GUIDE.replace("\\\n", " ").splitlines() if re.match(r"\s*helm install ", line)]


def test_the_values_fit_their_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


def test_the_schema_knows_exactly_the_values() -> None:
    compare(VALUES, SCHEMA, "")


def compare(values: dict[str, Any], schema: dict[str, Any], path: str) -> None:
    assert schema["additionalProperties"] is False, path
    assert set(values) == set(schema["properties"]) - {"global"}, path
    for key, value in values.items():
        if "properties" in schema["properties"][key]:
            compare(value, schema["properties"][key], f"{path}.{key}")


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 2},
        {"replicaCount": 0},
        {"database": {"url": "mysql://h/n"}},
        {"secretKey": {"value": "short"}},
        {"settings": {"PORTICO_LOG_LEVEL": "debug"}},
        {"publicUrl": "files.example.com"},
    ],
)
def test_mistakes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**VALUES, **wrong}, SCHEMA)


def merged(values: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    both = copy.deepcopy(values)
    for key, value in more.items():
        both[key] = merged(both.get(key, {}), value) if isinstance(value, dict) else value
    return both


def given(command: str) -> dict[str, Any]:
    """The values of a `helm install` line."""
    words = shlex.split(command, comments=True)
    values = VALUES
    for option, value in pairwise(words):
        if option == "--set":
            path, _, text = value.partition("=")
            assert "," not in text, "helm reads a comma as the start of another value"
            more = yaml.safe_load(text)
            for key in reversed(path.split(".")):
                more = {key: more}
            values = merged(values, more)
    return values


def refusals(values: dict[str, Any]) -> list[str]:
    """What `portico.check` in the helpers says to these values."""

    def defined(name: str) -> str:
        end = r"{{- end }}(?:\n\n|\s*\Z)"
        found = re.search(rf'{{{{- define "{name}" -}}}}\n(.*?)\n{end}', TEMPLATES["_helpers.tpl"], re.S)
        assert found, name
        return found[1]

    def holds(expression: Any) -> Any:
        if isinstance(expression, str):
            value: Any = values
            if not expression.startswith(".Values."):
                return yaml.safe_load(expression)
            for key in expression.removeprefix(".Values.").split("."):
                value = value[key]
            return value
        word, *rest = expression
        if not rest:
            return holds(word)
        if word == "include":
            condition = re.fullmatch(r"{{- if (.*) }}yes{{ end }}", defined(rest[0].strip('"')))
            assert condition, rest
            return holds(read(condition[1]))
        operands = [holds(each) for each in rest]
        if word == "and":
            return all(operands)
        if word == "or":
            return any(operands)
        if word == "not":
            return not operands[0]
        if word == "gt":
            return operands[0] > operands[1]
        assert word == "int", word
        return int(operands[0])

    def read(text: str) -> list[Any]:
        stack: list[list[Any]] = [[]]
        for word in re.findall(r'\(|\)|"[^"]*"|[^\s()]+', text):
            if word == "(":
                stack.append([])
            elif word == ")":
                stack[-2].append(stack.pop())
            else:
                stack[-1].append(word)
        [expression] = stack
        return expression

    checks = re.findall(r'{{- if (.*) }}\n{{- fail "(.*)" }}\n{{- end }}', defined("portico.check"))
    assert len(checks) == TEMPLATES["_helpers.tpl"].count("fail ")
    return [sentence for condition, sentence in checks if holds(read(condition))]


def test_the_chart_refuses_what_cannot_work() -> None:
    database = {"database": {"url": "postgresql://h/n"}}
    behind = {"behindProxy": "10.42.0.0/16"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "set behindProxy"),
        ({"replicaCount": 2, **behind}, "More than one replica"),
        ({"autoscaling": {"enabled": True}, **behind}, "More than one replica"),
        ({**database, **behind}, "the same key"),
    ]
    for values, word in wrong:
        [refusal] = refusals(merged(VALUES, values))
        assert word in refusal
    assert not refusals(merged(VALUES, {"tls": {"secretName": "x"}}))
    assert not refusals(merged(VALUES, {**database, **behind, "secretKey": {"existingSecret": "x"}}))


def test_the_guide_has_lines_for_one_replica_and_for_several() -> None:
    assert {given(line)["replicaCount"] > 1 for line in INSTALLATIONS} == {False, True}


@pytest.mark.parametrize("line", INSTALLATIONS)
def test_the_lines_of_the_guide_are_accepted(line: str) -> None:
    values = given(line)
    jsonschema.validate(values, SCHEMA)
    assert not refusals(values)


@pytest.mark.parametrize("example", re.findall(r"^ *```yaml\n(.*?)^ *```", GUIDE, re.M | re.S))
def test_the_values_of_the_guide_are_accepted(example: str) -> None:
    jsonschema.validate(merged(VALUES, yaml.safe_load(example)), SCHEMA)


def test_volumes_and_certificates_of_your_own_are_mounted() -> None:
    pod = TEMPLATES["_helpers.tpl"]
    for name, indent in (("extraVolumeMounts", 8), ("extraVolumes", 4)):
        assert f"{{{{- with .Values.{name} }}}}" in pod
        assert re.search(rf"with \.Values\.{name} }}}}\n\s+{{{{- toYaml \. \| nindent {indent} }}}}", pod), name
    for variable in ("SSL_CERT_FILE", "AWS_CA_BUNDLE", "PGSSLROOTCERT"):
        assert f"- name: {variable}\n          value: /run/secrets/ca/ca.crt" in pod


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_use_values_that_exist(name: str) -> None:
    for path in re.findall(r"\.Values\.([A-Za-z.]+)", TEMPLATES[name]):
        value: Any = VALUES
        for key in path.split("."):
            assert key in value, path
            value = value[key]


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_include_what_is_defined(name: str) -> None:
    defined = set(re.findall(r'define "([^"]+)"', TEMPLATES["_helpers.tpl"]))
    assert set(re.findall(r'include "([^"]+)"', TEMPLATES[name])) <= defined


def test_the_pod_is_confined_and_probed() -> None:
    pod = TEMPLATES["_helpers.tpl"]
    for line in (
        "runAsNonRoot: true",
        f"runAsUser: {USER}",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        'drop: ["ALL"]',
        "type: RuntimeDefault",
        "enableServiceLinks: false",
        f"containerPort: {PORT}",
        f"mountPath: {HOME}",
        "terminationGracePeriodSeconds: {{ add .Values.drainDelaySeconds .Values.stopTimeoutSeconds 10 }}",
    ):
        assert line in pod, line
    probes = dict(re.findall(r"(\w+)Probe:\n\s+httpGet: {path: (/\w+), port: http", pod))
    assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_the_chart_is_of_this_version() -> None:
    chart = parsed("helm/portico/Chart.yaml")
    assert chart["appVersion"] == RELEASE
