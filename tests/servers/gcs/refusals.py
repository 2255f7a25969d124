"""Errors as the service words them."""

import json

from aiohttp import web


class Refusal(Exception):
    def __init__(self, status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.headers = headers or {}

    def answer(self, *, plain: bool) -> web.Response:
        """Downloads are answered in plain text, all else in JSON."""
        if plain:
            return web.Response(status=self.status, text=self.message, headers=self.headers)
        flaw = {"message": self.message, "domain": "global", "reason": self.reason}
        body = {"error": {"code": self.status, "message": self.message, "errors": [flaw]}}
        return web.Response(
            status=self.status, body=json.dumps(body).encode(), content_type="application/json", headers=self.headers
        )


def invalid(message: str = "Invalid Value") -> Refusal:
    return Refusal(400, "invalid", message)


def missing_object(bucket: str, name: str) -> Refusal:
    return Refusal(404, "notFound", f"No such object: {bucket}/{name}")


def condition_not_met() -> Refusal:
    return Refusal(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
