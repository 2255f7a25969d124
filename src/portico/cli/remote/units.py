"""Human-readable sizes and durations, in the same units as the web page."""

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count: float) -> str:
    """`1234567` as `1.2 MB`."""
    step = 0
    while count >= 999.5 and step < len(_UNITS) - 1:
        count /= 1000
        step += 1
    return f"{count:.{1 if step and count < 9.95 else 0}f} {_UNITS[step]}"


def span(seconds: float) -> str:
    """How long something took."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{clock(seconds)} min" if seconds < 3600 else f"{clock(seconds)} h"


def clock(seconds: float) -> str:
    """`4:05`, or from an hour on `1:04:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
