"""Traces for OpenTelemetry: a span for each request, and below it one for each call to a storage service.

Without the extra `otel` and an endpoint there is no `Tracing`, and nothing of this is imported.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from portico import __version__
from portico.model.errors import InvalidRequest, PorticoError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PATH = "/v1/traces"
_MISSING = "The setting otel.endpoint needs an extra; install it with: pip install 'portico-gateway[otel]'"
_PARENT = ("traceparent", "tracestate")

EndRequest = Callable[[str, int, str], None]


class Tracing:
    def __init__(self, exporter: "SpanExporter", node: str) -> None:
        from opentelemetry import context, trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create(
            {"service.name": "portico", "service.version": __version__, "service.instance.id": node}
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("portico", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._trace, self._context = trace, context

    def begin_request(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> "EndRequest":
        """Begin a request's span, below the client's `traceparent` (W3C Trace Context). What is returned ends it."""
        carrier = {
            name.decode(): value.decode("latin-1") for name, value in headers if name.decode("latin-1") in _PARENT
        }
        span = self._tracer.start_span(
            method,
            self._propagator.extract(carrier),
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.request.method": method},
        )
        token = self._context.attach(self._trace.set_span_in_context(span))
        return partial(self._end_request, span, token)

    @contextmanager
    def call(self, connection: str, kind: str, call: str) -> Iterator[None]:
        attributes = {"portico.connection": connection, "portico.kind": kind, "portico.call": call}
        with self._tracer.start_as_current_span(
            f"{kind} {call}",
            kind=self._trace.SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,  # a message may name files
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                code = error.code if isinstance(error, PorticoError) else type(error).__name__
                span.set_attribute("error.type", code)
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
                raise

    def _end_request(self, span: Any, token: Any, action: str, status: int, request_id: str) -> None:
        """Without path and user, which belong in the log and the audit log: the request id leads there."""
        self._context.detach(token)
        span.update_name(action)
        span.set_attributes(
            {"http.response.status_code": status, "portico.action": action, "portico.request_id": request_id}
        )
        if not status or status >= 500:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
        span.end()

    def close(self) -> None:
        """Send what is left. Blocks while the collector does not answer, up to its timeout."""
        self._provider.shutdown()


def check_extra(endpoint: str) -> None:
    """`InvalidRequest` if there is an endpoint but not what it takes to use it."""
    if endpoint and find_spec("opentelemetry") is None:
        raise InvalidRequest(_MISSING)


def open_tracing(endpoint: str, node: str, environment: Mapping[str, str] = os.environ) -> Tracing | None:
    """To the collector at `endpoint`, or where OpenTelemetry's own variables say; None if there is none."""
    if not endpoint and not any(environment.get(name) for name in _VARIABLES):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError:
        if not endpoint:
            return None  # the variables may be meant for others
        raise InvalidRequest(_MISSING) from None
    if not endpoint:
        return Tracing(OTLPSpanExporter(), node)
    return Tracing(OTLPSpanExporter(endpoint.removesuffix(_PATH).rstrip("/") + _PATH), node)
