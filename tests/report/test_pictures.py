"""What is drawn is what the document says: squares, servers, rails, switches, speeds, and the same in words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from app.advice.recommendation import Architecture, Scaling
from app.report.charts import cost_over_time, scaling_chart, short_usd
from app.report.picture import architecture_picture, legend, picture_words
from tests.report.sample import cloud, cost, design, estimate, hosted, network, recommendation


def drawn(document) -> LexborHTMLParser:
    return LexborHTMLParser(architecture_picture(document))


def cluster(servers: int, gpus: int | None = None, **fabric):
    gpus = gpus or servers * 8
    chosen = design(servers=servers, gpus=gpus, gpus_per_replica=gpus, nics_per_server=8, nic_gbit_per_s=400.0, scale_out="infiniband")
    return recommendation(Architecture.INFINIBAND_CLUSTER, chosen, network=network(**fabric))


@pytest.mark.parametrize("servers", [2, 3, 4, 5, 16])
def test_up_to_sixteen_servers_show_every_gpu(servers):
    picture = drawn(cluster(servers))
    assert len(picture.css(".frame")) == servers
    assert len(picture.css("rect.gpu")) == 8 * servers
    assert len(picture.css(".envelope")) == servers


def test_above_sixteen_two_and_the_last_are_drawn_with_the_count_between():
    picture = drawn(cluster(67))
    assert len(picture.css(".frame")) == 3
    # 67 servers less the three drawn.
    assert "× 64 more" in picture.text()


def test_gpus_not_used_are_drawn_as_such():
    # 13 of 16 GPUs: 8 in the first server, 5 in the second, 3 spare.
    picture = drawn(cluster(2, gpus=13))
    assert len(picture.css(".gpu.spare")) == 3
    assert "dashed square" in " ".join(legend(cluster(2, gpus=13)))


def test_a_rack_shows_all_its_gpus():
    chosen = design(gpus_per_server=72, gpus=40, gpus_per_replica=40, scale_up="nvlink5-nvl72")
    picture = drawn(recommendation(Architecture.NVLINK_SERVER, chosen))
    assert len(picture.css("rect.gpu")) == 72
    assert len(picture.css("rect.spare")) == 32


def test_rails_switches_and_speeds_are_written():
    picture = drawn(cluster(10))
    text = picture.text()
    assert "8 × 400 Gbit/s InfiniBand a server, 8 rails" in text
    assert "128 cables × 400 Gbit/s, no blocking" in text
    assert len(picture.css(".switch")) == 8 + 4
    # Eight rails across, and eight down from their leaves.
    assert len(picture.css(".rail")) == 16


def test_many_leaves_are_counted_not_crowded():
    picture = drawn(cluster(64, leaf_switches=24, spine_switches=16))
    assert len(picture.css(".switch")) == 8 + 4
    assert "× 24" in picture.text()
    assert "× 16" in picture.text()


def test_pcie_leads_to_the_host_and_has_no_envelope():
    chosen = design(gpus=4, gpus_per_server=4, gpus_per_replica=4, scale_up="pcie5", scale_up_gb_per_s=63.0)
    picture = drawn(recommendation(Architecture.MULTI_GPU_PCIE, chosen))
    assert not picture.css(".envelope")
    assert len(picture.css("line.pcie")) == 4
    assert "PCIe 5, 63.0 GB/s each way" in picture.text()


def test_copies_of_the_job_are_numbered():
    chosen = design(gpus=8, gpus_per_replica=2, replicas=4)
    picture = drawn(recommendation(Architecture.NVLINK_SERVER, chosen))
    assert [node.text() for node in picture.css("text.on")] == ["1", "1", "2", "2", "3", "3", "4", "4"]


def test_replicas_that_never_talk_show_an_ordinary_switch():
    chosen = design(servers=5, gpus=40, replicas=5)
    document = recommendation(Architecture.NVLINK_SERVER, chosen, network=network(fabric="Ethernet", leaf_switches=1, spine_switches=0))
    assert "requests only, ordinary Ethernet" in drawn(document).text()
    assert not drawn(document).css(".rail")
    assert "only requests travel" in picture_words(document)


def test_no_design_draws_nothing_and_says_so():
    document = recommendation(None, None)
    assert architecture_picture(document) == ""
    assert picture_words(document) == "No design."


def test_names_are_escaped():
    document = recommendation(Architecture.NVLINK_SERVER, design(gpu_name="<script>&"))
    assert "<script>" not in architecture_picture(document)


@given(
    servers=st.integers(1, 5000),
    per=st.sampled_from([1, 2, 3, 4, 6, 8, 10, 16, 72]),
    nics=st.integers(0, 32),
    rails=st.integers(0, 32),
    leaves=st.integers(0, 500),
    spines=st.integers(0, 200),
    missing=st.integers(0, 71),
)
def test_any_design_is_drawn_inside_its_frame(servers, per, nics, rails, leaves, spines, missing):
    gpus = max(servers * per - min(missing, per - 1), 1)
    chosen = design(servers=servers, gpus=gpus, gpus_per_server=per, gpus_per_replica=gpus, nics_per_server=nics, scale_out="infiniband")
    document = recommendation(
        Architecture.INFINIBAND_CLUSTER, chosen, network=network(rails=rails, leaf_switches=leaves, spine_switches=spines)
    )
    svg = architecture_picture(document)
    width, height = (float(value) for value in re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
    for node in LexborHTMLParser(svg).css("rect"):
        x, y, w, h = (float(node.attributes[name]) for name in ("x", "y", "width", "height"))
        assert min(x, y) >= 0
        assert w > 0
        assert h > 0
        assert x + w <= width + 1
        assert y + h <= height + 1


def test_owning_is_drawn_against_renting():
    # Rent 2,000 a month: 72,000 in three years. Own 24,000 and 12,000 a year: 60,000; break-even 24,000 / (2,000 - 1,000) = 24 months.
    chart = cost_over_time(cost(24_000, 12_000, cloud=cloud(72_000), break_even_months=24.0))
    assert chart.title == "Owning pays from month 24"
    assert "own: $24k now, $60k after 3 years" in chart.svg
    assert "rent: $0 now, $72k after 3 years" in chart.svg


def test_renting_that_stays_cheaper_says_so():
    chart = cost_over_time(cost(24_000, 12_000, cloud=cloud(50_000), break_even_months=61.7))
    assert chart.title == "Renting stays cheaper for the 3 years; owning would pay from month 62"


def test_a_cheap_service_is_named():
    assert "hosted service costs less" in cost_over_time(cost(24_000, 12_000, hosted_api=hosted(5_000))).title


def test_nothing_to_compare_with_draws_nothing():
    assert cost_over_time(cost(24_000, 12_000)) is None


def test_scaling_says_what_is_kept():
    points = [Scaling(gpus=8, throughput=100.0, efficiency=1.0), Scaling(gpus=16, throughput=160.0, efficiency=0.8)]
    chart = scaling_chart(recommendation(Architecture.NVLINK_SERVER, design(), estimate=estimate(points)))
    assert chart.title == "16 GPUs keep only 80% of linear speed"
    bars = [float(node.attributes["width"]) for node in LexborHTMLParser(chart.svg).css("rect.bar")]
    assert bars[1] / bars[0] == pytest.approx(0.8, rel=0.001)


@pytest.mark.parametrize(("value", "shown"), [(0, "$0"), (950, "$950"), (12_300, "$12.3k"), (2_310_000, "$2.31M"), (4e9, "$4B")])
def test_axis_money(value, shown):
    assert short_usd(value) == shown
