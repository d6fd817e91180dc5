from recveil.data.cleaning import clean_dataset
from recveil.data.sources import lastfm

SHA = ["00000c289a1829a808ac09c00daf10bc3c4e223b", "00001411dc427966b17297bf4d69e7e193135d89"]


def small_360k(folder):
    plays = [
        f"{SHA[0]}\t3bd73256-3905-4f3a-97e2-8b341527f805\tbetty blowtorch\t2137",
        f'{SHA[0]}\t\tthe "quoted" ones\t12',
        f"{SHA[0]}\t\t\t7",
        f"{SHA[1]}\t3bd73256-3905-4f3a-97e2-8b341527f805\tBetty Blowtorch\t1",
        f"{SHA[1]}\tbroken",
    ]
    profiles = [f"{SHA[0]}\tf\t22\tGermany\tFeb 1, 2007", f"{SHA[1]}\t\t-1337\tCanada\tDec 4, 2007"]
    (folder / "usersha1-artmbid-artname-plays.tsv").write_text("\n".join(plays) + "\n")
    (folder / "usersha1-profile.tsv").write_text("\n".join(profiles) + "\n")
    return folder


def small_1k(folder):
    plays = [
        "user_000001\t2009-05-04T23:08:57Z\tf1b1cf71\tDeep Dish\t\tFuck Me Im Famous",
        "user_000001\t2009-05-04T13:54:10Z\ta7f7df4a\tunderworld\tdc394163\tBoy, Boy, Boy",
        "user_000001\t2009-05-03T13:54:10Z\tf1b1cf71\tDeep Dish\t\tanother",
        'user_000002\t2009-05-01T00:00:00Z\t\tNo "Id"\t\tx',
    ]
    header = "#id\tgender\tage\tcountry\tregistered"
    (folder / "userid-timestamp-artid-artname-traid-traname.tsv").write_text("\n".join(plays) + "\n")
    profiles = [header, "user_000001\tm\t\tJapan\tAug 13, 2006", "user_000002\tf\t30\tPeru\t"]
    (folder / "userid-profile.tsv").write_text("\n".join(profiles) + "\n")
    return folder


def test_360k(tmp_path, caplog):
    dataset = clean_dataset(lastfm.read_360k(small_360k(tmp_path)), "d")
    assert dataset.user_ids.tolist() == SHA
    assert dataset.item_ids.tolist() == ["3bd73256-3905-4f3a-97e2-8b341527f805", 'the "quoted" ones']
    assert dataset.user.tolist() == [0, 0, 1]
    assert dataset.item.tolist() == [0, 1, 0]
    assert dataset.time is None
    assert dataset.attributes["gender"].codes.tolist() == [0, -1]
    assert dataset.attributes["age"].codes.tolist() == [0, -1]
    assert dataset.attributes["country"].labels == ("Canada", "Germany")
    assert "signup" not in dataset.attributes
    assert "left out 1 rows" in caplog.text


def test_plays_are_the_rating(tmp_path):
    assert lastfm.read_360k(small_360k(tmp_path)).interactions.column("rating").to_pylist() == [2137, 12, 1]


def test_1k(tmp_path):
    dataset = clean_dataset(lastfm.read_1k(small_1k(tmp_path)), "d")
    assert dataset.user_ids.tolist() == ["user_000001", "user_000002"]
    assert dataset.item_ids.tolist() == ['No "Id"', "a7f7df4a", "f1b1cf71"]
    # Deep Dish was played twice; the earlier play stays.
    assert dataset.item.tolist() == [1, 2, 0]
    assert dataset.time.tolist() == [1241445250, 1241358850, 1241136000]
    assert dataset.attributes["age"].labels == ("30",)
    assert dataset.attributes["gender"].labels == ("f", "m")
