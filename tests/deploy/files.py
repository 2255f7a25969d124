"""The files of the deployment kit."""

import re
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).parents[2]
DEPLOY = CHECKOUT / "deploy"
CHART = DEPLOY / "helm" / "portico"
PORT = 8080
HOME = "/var/lib/portico"
USER = "10001"


def text(name: str) -> str:
    return (DEPLOY / name).read_text()


def parsed(name: str) -> Any:
    return yaml.safe_load(text(name))


def seconds(duration: str) -> int:
    """Of `40s` or `5min`."""
    number, unit = re.fullmatch(r"(\d+)(s|min)", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "min": 60}[unit]
