"""Meters: what the server counts about itself, in the text that Prometheus reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Meters:
    """Requests by route and status, their times, open event streams."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._seconds: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(_BOUNDS) + 1))
        self._sums: defaultdict[str, float] = defaultdict(float)
        self.streams = 0
        self.events = 0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request is answered."""
        self._requests[method, route, str(status)] += 1
        place = next((at for at, most in enumerate(_BOUNDS) if seconds <= most), len(_BOUNDS))
        self._seconds[route][place] += 1
        self._sums[route] += seconds

    def text(self, gauges: Mapping[str, Mapping[str, float]]) -> str:
        """All of it; `gauges` are counts of the moment by name and label."""
        return "\n".join([*self._lines(gauges), ""])

    def _lines(self, gauges: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
        yield "# HELP plansmith_http_requests_total Requests answered."
        yield "# TYPE plansmith_http_requests_total counter"
        for (method, route, status), count in sorted(self._requests.items()):
            labels = _labels(method=method, route=route, status=status)
            yield f"plansmith_http_requests_total{labels} {count}"
        yield "# HELP plansmith_http_request_seconds Time until an answer was ready."
        yield "# TYPE plansmith_http_request_seconds histogram"
        for route, counts in sorted(self._seconds.items()):
            yield from self._histogram(route, counts)
        yield "# HELP plansmith_stream_events_total Events sent to streams."
        yield "# TYPE plansmith_stream_events_total counter"
        yield f"plansmith_stream_events_total {self.events}"
        for name, values in gauges.items():
            yield f"# TYPE {name} gauge"
            for label, value in sorted(values.items()):
                yield f"{name}{_labels(status=label) if label else ''} {value:g}"

    def _histogram(self, route: str, counts: list[int]) -> Iterator[str]:
        total = 0
        for bound, count in zip([*map(str, _BOUNDS), "+Inf"], counts, strict=True):
            total += count
            labels = _labels(route=route, le=bound)
            yield f"plansmith_http_request_seconds_bucket{labels} {total}"
        yield f"plansmith_http_request_seconds_sum{_labels(route=route)} {self._sums[route]:.6f}"
        yield f"plansmith_http_request_seconds_count{_labels(route=route)} {total}"


def _labels(**labels: str) -> str:
    escaped = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return "{" + ",".join(escaped) + "}"


_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
