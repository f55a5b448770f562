"""Peers run in turn, and ratios are taken within a round."""

import pytest

from benchmarks import rounds
from benchmarks.rounds import Peer

PEER = """
from benchmarks import peer

def prepare(settings):
    print("no figure")
    def run_round(number):
        print("nor this")
        if number == settings.get("fails"):
            raise ValueError("too slow")
        with open(settings["order"], "a") as order:
            order.write(settings["name"])
        return {"rows_per_second": settings["speed"] * (number + 1)}
    return run_round

peer.serve(prepare)
"""


@pytest.fixture
def build(tmp_path):
    script = tmp_path / "peer.py"
    script.write_text(PEER)

    def build_peer(name, speed, **settings):
        settings |= {"name": name, "speed": speed, "order": str(tmp_path / "order")}
        return Peer(name, str(script), settings)

    return build_peer


def test_each_round_runs_all_peers_and_begins_with_the_next(build, tmp_path):
    results = rounds.run_rounds([build("a", 10), build("b", 5)], 3)
    assert (tmp_path / "order").read_text() == "abbaab"
    assert [figures["rows_per_second"] for figures in results["a"]] == [10, 20, 30]
    assert [figures["rows_per_second"] for figures in results["b"]] == [5, 10, 15]


def test_ratio_is_taken_within_a_round():
    # The machine doubles its speed from round to round; the ratio stays.
    ours, theirs = (
        [{"rows_per_second": speed * 2**number} for number in range(3)]
        for speed in (30, 10)
    )
    spread = rounds.ratio(ours, theirs, "rows_per_second")
    assert (spread.median, spread.low, spread.high) == (3, 3, 3)


def test_peer_that_fails_is_reported_with_its_output(build):
    with pytest.raises(rounds.PeerError, match=r"(?s)b \(.*peer.py\).*too slow"):
        rounds.run_rounds([build("a", 10), build("b", 5, fails=1)], 3)


def test_tables_show_median_and_spread():
    spread = rounds.Spread.of([3.0, 1.0, 2.0, 9.0, 4.0])
    line = ["ours", spread.format(1)]
    assert rounds.table(["training", "rows/s"], [line]) == (
        "| training | rows/s |\n| --- | --- |\n| ours | 3.0 (1.0 to 9.0) |"
    )
