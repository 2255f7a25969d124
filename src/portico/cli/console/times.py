"""Times as options: how long ago, or when."""

from collections.abc import Callable

from portico.cli.console.exits import UsageMistake
from portico.model import timestamps
from portico.runtime import clock


def moment(name: str) -> Callable[[str], int]:
    """What converts the value of the option `name` to milliseconds since the epoch."""

    def convert(text: str) -> int:
        from portico.settings import parsers as setting_parsers

        try:
            if "-" in text:
                return round(timestamps.parse(text).timestamp() * 1000)
            if text.isdecimal():  # a duration has a unit here: 2 is rather meant as hours or days
                raise ValueError
            return clock.now() - clock.milliseconds(setting_parsers.duration(text))
        except ValueError:
            raise UsageMistake(
                f"{name} must be a duration such as 45m, 1h or 30d, or a time such as 2027-01-31 or 2027-01-31T09:00Z."
            ) from None

    return convert


def check_order(since: int | None, until: int | None) -> None:
    if until is not None and until <= (since or 0):
        raise UsageMistake("--until must be later than --since: '--since 3h --until 2h' is the hour two hours ago.")
