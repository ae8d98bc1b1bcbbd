"""Events as torch 2.11's profiler gave them on an H200, reduced to what joining reads."""

from __future__ import annotations

from dispatchcov.observers.join import PREFIX, Event, is_kernel, join

MAIN, OTHER = 1, 2


def host(name: str, id: int, start: int, duration: int, thread: int = MAIN) -> Event:
    return Event(name, False, id, 0, start, duration, thread)


def kernel(name: str, link: int, start: int) -> Event:
    return Event(name, True, 0, link, start, 5, 0)


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


def test_a_kernel_launched_in_the_range_links_to_it() -> None:
    joined = join([host(f"{PREFIX}1", 10, 0, 100), kernel("void Dequantize<__half>(...)", 10, 300)])
    assert names(joined.kernels[1]) == ["void Dequantize<__half>(...)"]
    assert joined.outside == []


def test_a_kernel_of_an_operator_is_found_through_the_operator_by_thread_and_time() -> None:
    events = [
        host("fp4ops::matmul_nvfp4", 9, 0, 300),
        host(f"{PREFIX}1", 10, 10, 100),
        host("aten::mm", 11, 20, 30),
        host(f"{PREFIX}2", 12, 150, 100),
        host("aten::mm", 13, 160, 30),
        host("aten::mm", 14, 160, 30, OTHER),
        kernel("nvjet_b", 13, 500),
        kernel("nvjet_a", 11, 400),
        kernel("nvjet_c", 14, 600),
    ]
    joined = join(events)
    assert {number: names(found) for number, found in joined.kernels.items()} == {1: ["nvjet_a"], 2: ["nvjet_b"]}
    assert names(joined.outside) == ["nvjet_c"]


def test_of_nested_ranges_the_innermost_holds() -> None:
    events = [
        host(f"{PREFIX}1", 1, 0, 100),
        host(f"{PREFIX}2", 2, 10, 20),
        host("aten::mm", 3, 12, 5),
        host("aten::mm", 4, 50, 5),
        kernel("inner", 3, 200),
        kernel("outer", 4, 210),
    ]
    joined = join(events)
    assert {number: names(found) for number, found in joined.kernels.items()} == {2: ["inner"], 1: ["outer"]}


def test_calls_into_the_driver_are_numbered_apart() -> None:
    events = [
        host(f"{PREFIX}1", 10, 0, 100),
        host("cudaLaunchKernel", 10, 500, 5),
        Event("cuLaunchKernelEx", False, 10, 7, 600, 5, MAIN),
        kernel("a", 10, 300),
    ]
    assert names(join(events).kernels[1]) == ["a"]


def test_what_no_range_explains_is_outside() -> None:
    joined = join([host("aten::mm", 3, 0, 5), kernel("a", 3, 10), kernel("b", 0, 11), kernel("c", 99, 12)])
    assert names(joined.outside) == ["a", "b", "c"]
    assert not joined.kernels


def test_copies_annotations_and_host_events_are_no_kernels() -> None:
    assert not is_kernel(kernel("Memcpy HtoD (Pageable -> Device)", 1, 0))
    assert not is_kernel(kernel("Memset (Device)", 1, 0))
    assert not is_kernel(kernel(f"{PREFIX}1", 1, 0))
    assert not is_kernel(host("cudaLaunchKernel", 1, 0, 5))
    assert is_kernel(kernel("void Dequantize<__half>(...)", 1, 0))
