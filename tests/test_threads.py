"""Threads: bits that do not depend on them, calls side by side, fork, Ctrl-C, and how their number is chosen."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ndpool
from closeness import same_bytes
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine
from processes import run_python

KINDS = [Max(), Max("split"), Min("all"), Avg(), Sum(), SmoothMax(3.0), Lp(2.5)]


@pytest.fixture(autouse=True)
def threads_as_they_were():
    before = ndpool.get_num_threads()
    yield
    ndpool.set_num_threads(before)


# --- the same bits --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    ("window", "shape", "axes"),
    [
        (Window((3, 3), 2, 1), (3, 5, 61, 67), None),
        (Window((3, 3), 2, 1), (2, 61, 67, 17), (1, 2)),
        (Window((3, 3), 2, 1), (1, 400, 331), None),
        (Window((15, 15), 1, 7), (1, 150, 220), None),
        (Window((3,), 2, 1), (140001,), None),
        (Window((2, 9), 9, (1, 4)), (1, 298, 331), None),
        (Adaptive((7, 7)), (5, 100, 101), None),
        (Global(), (3, 200, 201), (1, 2)),
        (Window((2, 3, 2), 2, 1), (1, 30, 50, 60), None),
    ],
)
def test_results_do_not_depend_on_the_number_of_threads(kind, dtype, window, shape, axes):
    """1, 2 and 5 threads give the same bytes: y, dy, gx and the indices."""
    pool = Pool(kind, window, axes)
    rng = np.random.default_rng(0)
    x = (rng.normal(size=shape) * 4).round(1).astype(dtype)
    t, g = rng.normal(size=shape).astype(dtype), rng.normal(size=pool.output_shape(shape)).astype(dtype)

    def everything(n):
        ndpool.set_num_threads(n)
        y, pullback = pool.vjp(x)
        indices = [pool.with_indices(x)[1]] if isinstance(kind, Max | Min) else []
        return [pool(x), *pool.jvp(x, t), y, pullback(g), *indices]

    one = everything(1)
    for n in (2, 5):
        for ours, theirs in zip(everything(n), one, strict=True):
            same_bytes(ours, theirs)


# --- calls side by side ---------------------------------------------------------------------------


def test_calls_from_many_threads_are_safe():
    """Different pools and one shared pool, on shared and on own arrays, from 8 Python threads at once."""
    ndpool.set_num_threads(3)
    rng = np.random.default_rng(0)
    shared = Pool(Max(), Window((3, 3), 2, 1))
    jobs = []
    for i in range(24):
        kind = KINDS[i % len(KINDS)]
        pool = shared if i % 3 == 0 else Pool(kind, Window((3, 3), 2, 1))
        x = rng.normal(size=(4, 60 + i, 70)).astype(np.float32)
        g = rng.normal(size=pool.output_shape(x.shape)).astype(np.float32)
        jobs.append((pool, x, g))

    def work(job):
        pool, x, g = job
        y, pullback = pool.vjp(x)
        return y, pullback(g), *pool.jvp(x, x)

    expected = [work(job) for job in jobs]
    with ThreadPoolExecutor(8) as executor:
        for _ in range(5):
            for ours, theirs in zip(executor.map(work, jobs), expected, strict=True):
                for a, b in zip(ours, theirs, strict=True):
                    same_bytes(a, b)


def test_one_pool_on_more_shapes_than_it_keeps_plans_for():
    """The cache of plans is changed by many threads at once: no error, right results, and it stays bounded."""
    pool = Pool(Sum(), Window((2,)))
    lengths = list(range(2, 402))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as executor:
            for _ in range(3):
                results = executor.map(lambda n: (n, pool(np.ones(n, np.float32))), lengths)
                for n, y in results:
                    assert y.tolist() == [2.0] * (n // 2)
    finally:
        sys.setswitchinterval(interval)
    assert len(pool._plans) <= 64 + 8


def test_the_gil_is_released():
    """While a long call runs, other Python threads do."""
    ndpool.set_num_threads(1)
    x = np.ones((64, 300, 300), np.float32)
    pool = Pool(SmoothMax(1.0), Window((9, 9), 1))
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        during = []
        # A busy machine may leave the other thread out of a call.
        while len(during) < 10 and max(during, default=0) < 5:
            before = len(ticks)
            pool(x)
            during.append(len(ticks) - before)
    finally:
        done.set()
        thread.join()
    assert max(during) >= 5


# --- fork -----------------------------------------------------------------------------------------


def pooled_in_a_child(n):
    ndpool.set_num_threads(2)
    x = np.arange(n * 40000, dtype=np.float64).reshape(n, 200, 200)
    return float(Pool(Max(), Window((2, 2)))(x).sum())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork.* was called:RuntimeWarning")  # JAX's, if a test before has imported it
def test_a_forked_child_has_threads_of_its_own():
    """A child of fork() inherits none of its parent's threads, and must not wait for them."""
    expected = [pooled_in_a_child(n) for n in (1, 2, 3)]
    with multiprocessing.get_context("fork").Pool(2) as children:
        assert children.map_async(pooled_in_a_child, (1, 2, 3)).get(timeout=60) == expected
    assert [pooled_in_a_child(n) for n in (1, 2, 3)] == expected


# --- in a process of its own ----------------------------------------------------------------------


PRINT_THREADS = "import ndpool; print(ndpool.get_num_threads())"


@pytest.mark.parametrize("n", [1, 3, 17])
def test_the_environment_sets_the_number(n):
    assert run_python(PRINT_THREADS, NDPOOL_NUM_THREADS=str(n)) == [str(n)]


@pytest.mark.parametrize("text", ["", "0", "-4", "many"])
def test_an_environment_that_says_nothing_leaves_all_processors(text):
    assert run_python(PRINT_THREADS, NDPOOL_NUM_THREADS=text) == run_python(
        "import os, ndpool; print(max(1, os.cpu_count()))", NDPOOL_NUM_THREADS=""
    )


def test_the_call_beats_the_environment():
    code = "import ndpool; ndpool.set_num_threads(2); print(ndpool.get_num_threads())"
    assert run_python(code, NDPOOL_NUM_THREADS="7") == ["2"]


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_leaves_a_sound_process(threads):
    """SIGINT during a long call raises KeyboardInterrupt when the call is over; then everything works as before."""
    code = f"""
    import os, signal, threading, time
    import numpy as np, ndpool
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is started deaf to it
    ndpool.set_num_threads({threads})
    pool = ndpool.Pool(ndpool.SmoothMax(1.0), ndpool.Window((3, 3), 1))
    x = np.random.default_rng(0).normal(size=(40, 300, 300))
    expected = pool(x[:2]).tobytes()
    start = time.perf_counter()
    pool(x)
    took = time.perf_counter() - start
    calls = 0
    for attempt in range(5):
        try:  # a signal may come while the timer is started, where processors are busy
            threading.Timer(took / 2, os.kill, (os.getpid(), signal.SIGINT)).start()
            while True:
                pool(x)
                calls += 1
        except KeyboardInterrupt:
            pass
        assert pool(x[:2]).tobytes() == expected
        pool.vjp(x[:2])[1](np.ones((2, 298, 298)))
    print("sound")
    """
    assert run_python(code) == ["sound"]


def test_an_interpreter_ends_while_others_still_work():
    """Leaving with daemon threads inside the engine must not crash."""
    code = """
    import threading, time
    import numpy as np, ndpool
    ndpool.set_num_threads(2)
    x = np.ones((20, 200, 200))
    def forever():
        while True:
            ndpool.max_pool2d(x, 3, 1)
    for _ in range(3):
        threading.Thread(target=forever, daemon=True).start()
    time.sleep(0.3)
    print("over")
    """
    assert run_python(code) == ["over"]


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, -1])
def test_no_threads_are_not_a_number_of_threads(n):
    with pytest.raises(ValueError, match=f"n={n}"):
        ndpool.set_num_threads(n)


@pytest.mark.parametrize("n", [1.5, "2", None, True])
def test_threads_come_in_whole_numbers(n):
    with pytest.raises(TypeError, match="n="):
        ndpool.set_num_threads(n)


@pytest.mark.parametrize("n", [1, 2, 5, 1000])
def test_what_is_set_is_what_is_used(n):
    ndpool.set_num_threads(n)
    assert ndpool.get_num_threads() == _engine.get_num_threads() == n


@pytest.mark.parametrize("n", [5000, 2**31, 2**40])
def test_more_threads_than_there_can_be(n):
    """Refused with a word about it, and not silently another number (rule "Bad arguments")."""
    before = ndpool.get_num_threads()
    with pytest.raises(ValueError, match=f"n={n}"):
        ndpool.set_num_threads(n)
    assert ndpool.get_num_threads() == before
