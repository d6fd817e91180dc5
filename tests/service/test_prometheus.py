"""Counts in the text format of Prometheus."""

from __future__ import annotations

from recveil.service.prometheus import SECONDS, Measurements


def test_requests_are_counted_in_their_buckets() -> None:
    counts = Measurements()
    for seconds in (0.0005, 0.0015, 9.0):
        counts.count_request(route="/apply", method="POST", status=200, seconds=seconds)
    lines = counts.render_text({}).splitlines()
    assert 'recveil_requests_total{route="/apply",method="POST",status="200"} 3' in lines
    assert 'recveil_request_seconds_bucket{route="/apply",le="0.001"} 1' in lines
    assert 'recveil_request_seconds_bucket{route="/apply",le="0.002"} 2' in lines
    assert f'recveil_request_seconds_bucket{{route="/apply",le="{SECONDS[-1]}"}} 2' in lines
    assert 'recveil_request_seconds_bucket{route="/apply",le="+Inf"} 3' in lines
    assert 'recveil_request_seconds_count{route="/apply"} 3' in lines
    assert 'recveil_request_seconds_sum{route="/apply"} 9.002000' in lines


def test_gauges_and_rows_are_shown_and_labels_escaped() -> None:
    counts = Measurements()
    counts.count_rows(5, 2)
    text = counts.render_text({"jobs": ("Jobs.", [((("state", 'a"b\\\n'),), 1.0)])})
    assert 'recveil_vectors_total{protected="no"} 2' in text
    assert 'recveil_vectors_total{protected="yes"} 3' in text
    assert '# TYPE jobs gauge\njobs{state="a\\"b\\\\\\n"} 1' in text
    assert text.endswith("\n")
