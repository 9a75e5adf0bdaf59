"""Print lines as `iperf3 --client` does, without a network: fake_iperf3.py [INTERVAL_S [COUNT]]."""

import sys
import time
from itertools import count
from math import sin

interval_s = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1
lines = range(int(sys.argv[2])) if len(sys.argv) > 2 else count()
print("Connecting to host 127.0.0.1, port 5201", flush=True)
print("[ ID] Interval           Transfer     Bitrate         Retr  Cwnd", flush=True)
for number in lines:
    time.sleep(interval_s)
    began, rate = number * interval_s, 100 + 5 * sin(number)
    print(
        f"[  5] {began:6.2f}-{began + interval_s:<6.2f} sec  1.25 MBytes  {rate:.1f} Mbits/sec"
        "    0    320 KBytes",
        flush=True,
    )
print("iperf3: error - control socket has closed unexpectedly", flush=True)
