"""The bench's own instruments: what they would get wrong, every figure would."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.crowds import REQUESTS, asked
from bench.far_away import Requests
from bench.growth import exponent
from bench.load import Target, body_of, exchange, hammer, request
from bench.processes import Process, apart, free_port, metered
from bench.streams import Sending, fetch, send
from bench.table import Contestant, Figure, Line, Sample, in_turns, render, share_line, time_line

Answer = Callable[[bytes], bytes]


class Stub:
    """A server that answers each request with what `answer` makes of its head."""

    def __init__(self, answer: Answer, *, drops: int = 0) -> None:
        self._answer = answer
        self._drops = drops
        self.bodies: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = Target(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with connection:
            while head := self._read(connection):
                if self._drops:
                    self._drops -= 1
                    return
                answer = self._answer(head)
                connection.sendall(answer)
                if b"Connection: close" in answer:
                    return

    def _read(self, connection: socket.socket) -> bytes:
        text = b""
        while b"\r\n\r\n" not in text:
            piece = connection.recv(65536)
            if not piece:
                return b""
            text += piece
        head, _, body = text.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        got = len(body)
        while got < length:
            got += len(connection.recv(65536))
        self.bodies.append(got)
        return head


@pytest.fixture
def stubs() -> Iterator[Callable[..., Stub]]:
    made: list[Stub] = []

    def make(answer: bytes, **options: int) -> Stub:
        made.append(Stub(lambda _: answer, **options))
        return made[-1]

    yield make
    for stub in made:
        stub.close()


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, EMPTY, CLOSING])
def test_each_request_is_sent_once_and_answered(stubs: Callable[..., Stub], answer: bytes) -> None:
    stub = stubs(answer)
    rates = hammer(stub.target, [request("POST", "/", {}, b"x" * 300_000)] * 20, connections=4)
    assert (rates.count, rates.succeeded) == (20, 20)
    assert stub.bodies == [300_000] * 20
    assert 0 < rates.p50 <= rates.p99 <= rates.worst


def test_a_dropped_connection_is_opened_anew(stubs: Callable[..., Stub]) -> None:
    assert hammer(stubs(PLAIN, drops=3).target, [request("GET", "/")] * 10, connections=2).count == 10


def test_a_refusal_is_no_figure(stubs: Callable[..., Stub]) -> None:
    refusing = stubs(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(RuntimeError, match="503"):
        hammer(refusing.target, [request("GET", "/")], connections=1)
    rates = hammer(refusing.target, [request("GET", "/")] * 3, connections=1, allowed=(200, 503))
    assert (rates.count, rates.succeeded) == (3, 0)


def test_a_file_is_sent_whole_between_its_ends(stubs: Callable[..., Stub], tmp_path: Path) -> None:
    file = tmp_path / "content"
    file.write_bytes(os.urandom(3_000_000))
    stub = stubs(EMPTY)
    sending = Sending("PUT", "/a", {}, b"before", b"after!")
    assert send(stub.target, [sending, sending], str(file)) > 0
    assert stub.bodies == [3_000_012] * 2
    with pytest.raises(RuntimeError, match="refused"):
        send(stubs(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n").target, [sending], str(file))


def test_a_short_answer_is_no_download(stubs: Callable[..., Stub]) -> None:
    assert fetch(stubs(PLAIN).target, [request("GET", "/")]) > 0
    short = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhello"
    with pytest.raises(RuntimeError, match="too early"):
        fetch(stubs(short).target, [request("GET", "/")])


def test_bytes_that_are_discarded_are_counted(stubs: Callable[..., Stub]) -> None:
    body = os.urandom(3_000_000)
    whole = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert fetch(stubs(whole + body).target, [request("GET", "/")], discard=True) > 0
    with pytest.raises(RuntimeError, match="too early"):
        fetch(stubs(whole + body[:-1]).target, [request("GET", "/")], discard=True)


@pytest.mark.parametrize(("answer", "body"), [(PLAIN, b"hello"), (CHUNKED, b"hello"), (EMPTY, b""), (CLOSING, b"ok")])
def test_an_answer_is_read_to_its_end(stubs: Callable[..., Stub], answer: bytes, body: bytes) -> None:
    with stubs(answer).target.connect() as connection:
        assert body_of(exchange(connection, request("GET", "/"))) == body


def test_the_marks_of_chunks_are_not_part_of_a_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert body_of(head + b'3\r\n"na\r\nA\r\nme": "abc"\r\n0\r\n\r\n') == b'"name": "abc"'


def test_the_exponent_is_that_of_the_growth() -> None:
    assert exponent({10: 5.0, 100: 5.0, 1000: 5.0}) == pytest.approx(0)
    assert exponent({10: 3.0, 100: 30.0, 1000: 300.0}) == pytest.approx(1)
    assert exponent({10: 1.0, 100: 10**0.5, 1000: 10.0}) == pytest.approx(0.5)


def test_users_ask_in_turn() -> None:
    pages = asked("a page of 100", ["one", "two"])
    assert len(pages) == REQUESTS
    assert pages[0] != pages[1]
    assert pages[0] == pages[2]
    assert asked("a PUT of 1 KiB", ["one"])[0].startswith(b"PUT ")


def test_a_line_says_by_how_much_its_goal_was_missed() -> None:
    slow, fast = Figure(2.0, "s"), Figure(1.0, "s")
    assert time_line("g", "w", fast, "peer", slow, 1.5).verdict == "reached"
    assert time_line("g", "w", fast, "peer", slow, 4.0).verdict == "MISSED by 50%"
    assert share_line("g", "w", slow, "peer", fast, 1.6).verdict == "MISSED by 25%"
    assert share_line("g", "w", fast, "peer", Figure(0.0, "s"), 1.6).verdict == ""
    text = render([time_line("g", "w", fast, "peer", slow, 4.0), Line("h", "alone", fast)])
    assert "0 of 1 goals reached" in text
    assert "MISSED by 50%: w against peer" in text


def test_rounds_are_in_turns_and_medians_are_taken() -> None:
    order: list[str] = []
    values = {"a": iter([1.0, 9.0, 2.0]), "b": iter([5.0, 5.0, 5.0])}

    def contestant(name: str) -> Contestant:
        def work() -> Sample:
            order.append(name)
            return Sample(next(values[name]))

        return Contestant(work)

    figures = in_turns(3, "s", {name: contestant(name) for name in values})
    assert order == ["a", "b"] * 3
    assert (figures["a"].value, figures["b"].value) == (2.0, 5.0)


def test_a_figure_has_its_spread_and_the_time_of_each_request() -> None:
    samples = iter([Sample(30.0, requests=10, client=0.1), Sample(10.0, requests=10, client=0.3)])
    figure = in_turns(2, "req/s", {"a": Contestant(lambda: next(samples))})["a"]
    assert str(figure) == "20.0 req/s (10.0–30.0)"
    assert figure.client == pytest.approx(0.2)
    assert figure.each == 0  # there is no server whose processor time was taken
    assert str(in_turns(1, "s", {"a": Contestant(lambda: Sample(1.0))})["a"]) == "1.00 s"


def test_a_line_that_takes_long_has_three_rounds() -> None:
    samples = in_turns(5, "s", {"a": Contestant(lambda: Sample(1.0))}, seconds=0)
    assert samples["a"].rounds == 3


def test_the_processor_time_of_the_client_is_known() -> None:
    result, seconds = metered(sum, range(1_000_000))
    assert result == sum(range(1_000_000))
    assert seconds > 0


def test_columns_without_content_are_left_out() -> None:
    text = render([Line("g", "alone", Figure(1.0, "s"))])
    assert "| line  | Portico |" in text
    assert "goal" not in text


def test_what_runs_apart_gives_its_result_or_its_failure() -> None:
    assert apart(divmod, 7, 2) == (3, 1)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        apart(divmod, 7, 0)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no such luck"):
        Process("it", ["sh", "-c", "echo no such luck"], free_port(), log=tmp_path / "log")
    assert Process.running == []


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_requests_are_counted_whatever_their_bodies_look_like(step: int) -> None:
    body = b"GET / HTTP/1.1\r\n\r\n"
    chunks = b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n12\r\n%b\r\n0\r\n\r\n" % body
    sent = (request("PUT", "/a", body=body) + request("GET", "/b") + chunks) * 2 + request("HEAD", "/d")
    requests = Requests()
    for start in range(0, len(sent), step):
        requests.feed(sent[start : start + step])
    assert requests.count == 7
