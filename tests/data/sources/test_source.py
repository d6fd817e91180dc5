from recveil.data.sources.catalog import SOURCES


def test_every_source_is_described_in_full():
    for name, source in SOURCES.items():
        assert source.title, name
        assert source.license.endswith("."), name
        assert source.citation.endswith("."), name
        assert source.page.startswith("http"), name
        assert source.url is None or source.url.startswith(("https://", "http://")), name
        assert source.checksum is None or source.checksum.partition(":")[0] in ("md5", "sha256"), name
