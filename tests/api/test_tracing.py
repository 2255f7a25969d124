"""Spans, as a collector receives them."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from portico.model.errors import InvalidRequest
from portico.observability.tracing import check_extra, open_tracing

from .conftest import OpenGateway
from .gateways import Gateway, address

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector:
    """Receives real OTLP over HTTP."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def resources(self) -> list[dict[str, str]]:
        return [
            {each.key: each.value.string_value for each in part.resource.attributes}
            for body in self.bodies
            for part in ExportTraceServiceRequest.FromString(body).resource_spans
        ]

    @property
    def spans(self) -> dict[str, Span]:
        """By name."""
        return {
            span.name: span
            for body in self.bodies
            for part in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in part.scope_spans
            for span in scope.spans
        }


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    collector = Collector()
    yield collector
    collector.close()


async def span(collector: Collector, name: str) -> Span:
    async with asyncio.timeout(60):
        while name not in collector.spans:
            await asyncio.sleep(0.01)
    return collector.spans[name]


def attributes(span: Span) -> dict[str, str | int]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


async def test_a_request_has_a_span_and_one_for_each_call_below_it(
    open_gateway: OpenGateway, collector: Collector
) -> None:
    gateway = await open_gateway(**{"otel.endpoint": collector.url, "node.name": "files-1"})
    answer = await gateway.call("GET", "", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    request, call = await span(collector, "list"), await span(collector, "local list_page")
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert (call.trace_id.hex(), call.parent_span_id) == (TRACE, request.span_id)
    assert (request.kind, call.kind) == (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT)
    assert attributes(request) == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "portico.action": "list",
        "portico.request_id": answer.headers["X-Request-Id"],
    }
    assert attributes(call) == {"portico.connection": "local", "portico.kind": "local", "portico.call": "list_page"}
    assert collector.resources[0]["service.name"] == "portico"
    assert collector.resources[0]["service.instance.id"] == "files-1"


async def test_what_fails_is_marked_and_names_no_file(open_gateway: OpenGateway, collector: Collector) -> None:
    gateway = await open_gateway(**{"otel.endpoint": f"{collector.url}/v1/traces"})
    assert (await gateway.call("GET", "canary.txt", params={"action": "STAT"})).status_code == 404
    request, call = await span(collector, "stat"), await span(collector, "local stat")
    assert request.status.code == Status.STATUS_CODE_UNSET  # the client's mistake
    assert (call.status.code, attributes(call)["error.type"]) == (Status.STATUS_CODE_ERROR, "not-found")
    assert b"canary" not in b"".join(collector.bodies)


async def test_the_standard_variable_is_enough_and_health_is_not_traced(
    open_gateway: OpenGateway, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    gateway = await open_gateway()
    await gateway.client.get("/readyz")
    await gateway.client.get("/")
    await gateway.call("GET")
    await span(collector, "list")
    assert sum(each in collector.spans for each in ("other", "GET")) == 1


async def test_a_collector_that_does_not_answer_is_no_reason_to_fail(
    open_gateway: OpenGateway, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    collector.close()
    collector.close = lambda: None  # type: ignore[method-assign]
    gateway = await open_gateway(**{"otel.endpoint": collector.url})
    assert (await gateway.list()).status_code == 200


async def test_without_an_endpoint_there_is_nothing(gateway: Gateway) -> None:
    assert open_tracing("", "one", {}) is None
    assert (await gateway.client.get(address("a"))).status_code == 401


def test_an_endpoint_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert open_tracing("", "one", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}) is None
    with pytest.raises(InvalidRequest, match=r"portico-gateway\[otel\]"):
        open_tracing("http://127.0.0.1:4318", "one", {})
    check_extra("")
    check_extra("http://127.0.0.1:4318")
    monkeypatch.setattr("portico.observability.tracing.find_spec", lambda _: None)
    with pytest.raises(InvalidRequest, match="otel"):
        check_extra("http://127.0.0.1:4318")
