"""When what stands in a log was written: without processes, without an API server."""

from bench.plane.kubelet.written import Stamps, Written


def test_a_line_has_one_time(tmp_path):
    """That of its first byte, in however many pieces it comes, and the same whenever it is asked for."""
    log = tmp_path / "main-0.log"
    log.write_bytes(b"one\ntw")
    written = Written(log)
    pieces = Stamps(written, 0)
    begun = pieces.put(b"one\ntw")
    log.write_bytes(b"one\ntwo\nthree\n")
    said = begun + pieces.put(b"o\nthree\n")

    stamps, texts = zip(*(line.split(b" ") for line in said.splitlines()), strict=True)
    assert texts == (b"one", b"two", b"three")
    assert stamps[0] == stamps[1] < stamps[2]
    assert said == Stamps(written, 0).put(log.read_bytes())


def test_what_was_written_before(tmp_path):
    """Up to the time of a byte all before it is older, and the byte is not."""
    log = tmp_path / "main-0.log"
    written = Written(log)
    for text in (b"one\n", b"one\ntwo\n"):
        log.write_bytes(text)
        written.look()

    assert [written.before(written.at(place)) for place in (0, 4)] == [0, 4]
    assert written.since(3600.0) == 0
