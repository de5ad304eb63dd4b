"""Records every change of the pods of one namespace, by a watch of the test's own that no fault touches."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from types import TracebackType
from typing import Any, Self

import urllib3

from tests.control_plane.credentials import HARNESS
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import condition
from tests.faults.history import PodChange


class PodRecorder:
    """The changes of the pods with some labels since the block began, those that existed then first."""

    def __init__(self, plane: ControlPlane, namespace: str, labels: str) -> None:
        context = ssl.create_default_context(cafile=str(plane.ca_file))
        self._pool = urllib3.PoolManager(ssl_context=context, retries=False)
        self._headers = {"Authorization": f"Bearer {plane.token(HARNESS)}", "User-Agent": "rebalancer-tests"}
        self._url = f"{plane.url}/api/v1/namespaces/{namespace}/pods?labelSelector={labels}"
        self._thread = threading.Thread(target=self._watch, name=f"record {namespace}", daemon=True)
        self._response: urllib3.BaseHTTPResponse | None = None
        self._ended = False
        self.changes: list[PodChange] = []
        self.error = ""
        """Why the record is not complete; empty if it is."""

    def __enter__(self) -> Self:
        """List what exists, and watch from there."""
        answer = json.loads(self._pool.request("GET", self._url, headers=self._headers).data)
        for pod in answer["items"]:
            self.changes.append(parse_change(pod, time.time()))
        version = answer["metadata"]["resourceVersion"]
        self._response = self._pool.request(
            "GET",
            f"{self._url}&watch=true&resourceVersion={version}&timeoutSeconds=3600",
            headers=self._headers,
            preload_content=False,
            timeout=urllib3.Timeout(connect=5, read=3600),
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the watch."""
        self._ended = True
        if self._response is not None:
            self._response.shutdown()
        self._thread.join(10)
        self._pool.clear()

    def _watch(self) -> None:
        assert self._response is not None
        rest = b""
        try:
            for chunk in self._response.stream(amt=None):
                *lines, rest = (rest + chunk).split(b"\n")
                self._take(lines)
        except (OSError, urllib3.exceptions.HTTPError, ValueError) as error:
            self._note(str(error))
        else:
            self._note("the server ended the watch")
        finally:
            with contextlib.suppress(OSError, urllib3.exceptions.HTTPError):
                self._response.close()

    def _take(self, lines: list[bytes]) -> None:
        now = time.time()
        for line in lines:
            if line:
                event = json.loads(line)
                self.changes.append(parse_change(event["object"], now, gone=event["type"] == "DELETED"))

    def _note(self, error: str) -> None:
        if not self._ended:
            self.error = f"the record of pods ended: {error}"


def parse_change(pod: dict[str, Any], at: float, *, gone: bool = False) -> PodChange:
    """Read what the checker needs of a pod."""
    metadata = pod["metadata"]
    return PodChange(
        version=int(metadata["resourceVersion"]),
        at=at,
        uid=metadata["uid"],
        name=metadata["name"],
        node=pod["spec"].get("nodeName", ""),
        ready=condition(pod, "Ready") == "True",
        terminating="deletionTimestamp" in metadata,
        gone=gone,
    )
