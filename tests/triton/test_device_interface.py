"""Benchmarks time launches with Triton's device interface, with or without PyTorch's ``torch.cuda``."""

from __future__ import annotations

from kcheck.driver.host_ranges import HostRanges
from kcheck.torch_cuda.streams import TorchStream
from kcheck.triton.driver import Driver
from tests.triton.conftest import Device


def test_events_and_streams_have_the_names_of_torch_cuda(device: Device) -> None:
    interface = Driver(device.machine, HostRanges(device.machine.memory), "cpu").get_device_interface()
    first, last = interface.Event(enable_timing=True), interface.Event(enable_timing=True)
    with interface.Stream():
        first.record()
        last.record()
    assert first.elapsed_time(last) >= 0


def test_a_stream_records_a_new_event_if_none_is_given() -> None:
    assert TorchStream().record_event().query()
