"""pottery's Redlock, driven by lines: a command on standard input, an answer on standard output.

Its arguments are the ports of the masters.
"""

import logging
import sys
import time
from pathlib import Path

import redis
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock
from redis.backoff import NoBackoff
from redis.retry import Retry

# Every master that is down is a whole traceback.
logging.disable(logging.CRITICAL)

# A master that does not answer is no reason to wait for it.
masters = {
    redis.Redis(
        host="127.0.0.1",
        port=int(port),
        socket_timeout=0.5,
        socket_connect_timeout=0.5,
        retry=Retry(NoBackoff(), 0),
    )
    for port in sys.argv[1:]
}
lock = None


def acquire(name, ttl_ms, wait_ms):
    """Takes the lock `name` for `ttl_ms`, and waits for it for at most `wait_ms`."""
    global lock
    lock = Redlock(key=name, masters=masters, auto_release_time=int(ttl_ms) / 1000)
    held = (
        lock.acquire(timeout=int(wait_ms) / 1000)
        if int(wait_ms) > 0
        else lock.acquire(blocking=False)
    )
    return "held" if held else "busy"


def extend(_ttl_ms):
    """By as much as it was taken for: there is no other span."""
    lock.extend()
    return "extended"


def release():
    lock.release()
    return "released"


def count(name, ttl_ms, file, times, pause_ms):
    """So many times: takes the lock, and adds one to the number in a file, slowly."""
    for _ in range(int(times)):
        if acquire(name, ttl_ms, 60_000) != "held":
            return "not held"
        number = int(Path(file).read_text())
        time.sleep(int(pause_ms) / 1000)
        Path(file).write_text(str(number + 1))
        lock.release()
    return "counted"


COMMANDS = {"acquire": acquire, "extend": extend, "release": release, "count": count}

print("ready", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    try:
        answer = COMMANDS[word](*rest)
    except (ExtendUnlockedLock, ReleaseUnlockedLock) as error:
        answer = f"lost {type(error).__name__}"
    print(answer, flush=True)
