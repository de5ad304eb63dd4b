"""Asks a Prometheus the queries of guards.

Each request has its own connection, for which the files with the token and certificates are read anew, because both are
replaced while the process runs. No redirect is followed, because it might send the token elsewhere. Proxies of the
environment are not used.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import structlog
import urllib3
from urllib3.util import Timeout

from rebalancer.admission.guards import GuardAnswer, Vector, Verdict, judge
from rebalancer.admission.pause import to_one_line
from rebalancer.decoding.promql import UnusableAnswerError, decode_vector
from rebalancer.policy import Expect, Guard, Guards, Prometheus

_LARGEST: Final = 4 * 1024 * 1024
"""Most bytes of an answer, some ten thousand series. A query that returns more should aggregate."""

OWN_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
"""The token with which this process evicts; an author of the policy must not be able to send it elsewhere."""

TOKEN_FOLDERS: Final = tuple(map(Path, ("/etc/rebalancer", "/etc/rebalancer-prometheus", "/var/run/secrets")))
"""Folders of tokens, besides the policy's own; an author of the policy must not be able to send other files."""

_AT_ONCE: Final = 8
"""Guards asked in parallel, because all answers must be fresh enough for one step."""

_LARGEST_TOKEN: Final = 64 * 1024
_CHUNK: Final = 64 * 1024

_log = structlog.get_logger("rebalancer.guards")


class PrometheusQueries:
    """Implements `ports.Monitoring`; the content of the file `own_token` is never sent.

    `folder` is the folder of the policy's file, where a token may lie, too; None for a policy without a file.
    """

    def __init__(self, own_token: Path = OWN_TOKEN, folder: Path | None = None) -> None:
        self._own_token = own_token
        self._folders = TOKEN_FOLDERS if folder is None else (folder, *TOKEN_FOLDERS)

    def ask(self, guards: Guards) -> tuple[GuardAnswer, ...]:
        """Ask each query once, some at a time; after a missing answer, the remaining queries count as unanswered."""
        answers: list[GuardAnswer] = []
        away = ""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for first in range(0, len(guards.queries), _AT_ONCE):
                some = guards.queries[first : first + _AT_ONCE]
                if away:
                    answers += [_fail(guard, away, away=True) for guard in some]
                    continue
                for answer, why in threads.map(lambda guard: self._try(guards.prometheus, guard), some):
                    answers.append(answer)
                    away = away or why
        return tuple(answers)

    def _try(self, prometheus: Prometheus, guard: Guard) -> tuple[GuardAnswer, str]:
        """Return the answer for a guard, and why Prometheus does not answer at all, "" if it does."""
        try:
            return self._ask(prometheus, guard), ""
        except UnusableAnswerError as error:
            return _fail(guard, str(error)), ""
        except (urllib3.exceptions.HTTPError, OSError) as error:
            away = _describe(error, prometheus)
            return _fail(guard, away, away=True), away
        except Exception as error:  # noqa: BLE001  # an answer that cannot be read is none, whatever the reason
            _log.exception("guard not asked", guard=guard.name)
            return _fail(guard, type(error).__name__), ""

    def _ask(self, prometheus: Prometheus, guard: Guard) -> GuardAnswer:
        found = self._query(prometheus, guard.query)
        if guard.expect is Expect.NOT_EMPTY or found.series or guard.present is None:
            return judge(guard, found, None)
        return judge(guard, found, self._query(prometheus, guard.present))

    def _query(self, prometheus: Prometheus, query: str) -> Vector:
        """Return the result of one query; raise UnusableAnswerError, an error of urllib3 or OSError."""
        assert prometheus.url is not None
        seconds = prometheus.timeout.total_seconds()
        deadline = time.monotonic() + seconds
        headers = {"Accept": "application/json", "User-Agent": "rebalancer"}
        if prometheus.token_file is not None:
            headers["Authorization"] = f"Bearer {self._read_token(Path(prometheus.token_file))}"
        if prometheus.ca_file is not None:
            Path(prometheus.ca_file).read_bytes()  # its error names the file
        with urllib3.PoolManager(num_pools=1, ca_certs=prometheus.ca_file) as pool:
            response = pool.request(
                "GET",
                f"{prometheus.url.rstrip('/')}/api/v1/query",
                fields={"query": query, "timeout": f"{seconds:.0f}s"},
                headers=headers,
                timeout=Timeout(total=seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                return decode_vector(response.status, _read_body(response, deadline))
            finally:
                response.close()

    def _read_token(self, path: Path) -> str:
        """Return the token in a file; an error never shows what the file holds."""
        if not any(path.resolve().is_relative_to(folder.resolve()) for folder in self._folders):
            expected = " or ".join(map(str, self._folders))
            raise UnusableAnswerError(f"prometheus.tokenFile {path} is not below {expected}; mount it there")
        token = _read_line(path)
        if not token or not all(0x20 < byte < 0x7F for byte in token):
            raise UnusableAnswerError(f"prometheus.tokenFile {path} holds no bearer token; expected one line of ASCII")
        if self._own_token.exists() and token == _read_line(self._own_token):
            raise UnusableAnswerError(
                f"prometheus.tokenFile {path} holds the token of the controller's own account; mount one for Prometheus"
            )
        return token.decode("ascii")


def _read_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST_TOKEN).strip()


def _fail(guard: Guard, why: str, *, away: bool = False) -> GuardAnswer:
    return GuardAnswer(guard.name, Verdict.ERROR, why, away)


def _read_body(response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
    """Return the body; raise UnusableAnswerError if it is too large, or comes too slowly."""
    parts, size = [], 0
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > _LARGEST:
            raise UnusableAnswerError(f"the answer has more than {_LARGEST:,} bytes; let the query aggregate")
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def _describe(error: Exception, prometheus: Prometheus) -> str:
    """Say why no answer came, without the client library's details."""
    match error:
        case urllib3.exceptions.NewConnectionError():  # refused, or without an address: a timeout by its class alone
            return f"{prometheus.url} cannot be asked: {to_one_line(str(error).partition(': ')[2])}"
        case urllib3.exceptions.TimeoutError() | TimeoutError():
            return f"no answer from {prometheus.url} within {prometheus.timeout.total_seconds():.0f}s"
        case OSError() if error.filename:
            return f"{error.filename} cannot be read: {error.strerror}"
        case _:
            return f"{prometheus.url} cannot be asked: {to_one_line(str(error))}"
