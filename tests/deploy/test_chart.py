"""The Helm chart: its values, their schema and its templates belong together."""

import json
import re
from typing import Any

import jsonschema
import pytest

import portico

from .files import CHART, HOME, PORT, USER, parsed

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES: dict[str, Any] = parsed("helm/portico/values.yaml")
TEMPLATES = {file.name: file.read_text() for file in (CHART / "templates").iterdir()}


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
    assert chart["appVersion"] == portico.__version__
