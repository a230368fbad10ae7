#!/bin/sh
# Runs the example in a network of its own, where the addresses of pods and load balancers are
# this machine's: nothing outside is touched, and no rights are needed but to make one.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec unshare --map-root-user --net sh -c '
  ip link set lo up
  ip address add 198.19.0.1/16 dev lo
  ip address add 10.0.0.1/8 dev lo
  exec hanse up --clusters c1,c2,c3 --no-sample --exec "${PYTHON:-python3} $1/quorum.py"
' sh "$here"
