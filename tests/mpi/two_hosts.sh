#!/usr/bin/env bash
# Two hosts on this machine, for tests: network namespaces NAME-1 (10.77.0.1) and NAME-2 (10.77.0.2)
# behind a switch NAME-0, with host names h1 and h2; h2 has process ids, /dev/shm and /tmp of its
# own. Needs root and iproute2.
#   two_hosts.sh NAME up | down | cut | kill PROGRAM
#   two_hosts.sh NAME mpirun N COMMAND...     N processes, half on each host
set -euo pipefail
self=$(readlink -f "$0")
case "${2:-}" in
  up)
    ip netns add "$1-0"
    ip -n "$1-0" link add switch type bridge
    ip -n "$1-0" link set switch up
    for n in 1 2; do
      ip netns add "$1-$n"
      ip -n "$1-0" link add "port$n" type veth peer name eth0 netns "$1-$n"
      ip -n "$1-0" link set "port$n" master switch up
      ip -n "$1-$n" addr add "10.77.0.$n/24" dev eth0
      ip -n "$1-$n" link set eth0 up
      ip -n "$1-$n" link set lo up
    done ;;
  down)
    for n in 1 2 0; do ip netns del "$1-$n" || true; done ;;
  cut)
    ip -n "$1-0" link set port2 down ;;
  kill) # a program's first process on h2
    for process in $(ip netns pids "$1-2" | sort -n); do
      if [[ $(cat "/proc/$process/comm") == "$3" ]]; then kill -9 "$process"; exit; fi
    done
    exit 1 ;;
  mpirun)
    name=$1; n=$3; shift 3
    export TWO_HOSTS=$name
    # Names are looked up nowhere, so that nobody waits for an answer.
    exec ip netns exec "$name-1" unshare -m -u bash -c '
      hostname h1; mount -t tmpfs tmpfs /mnt; echo "hosts: files" > /mnt/nsswitch; mount --bind /mnt/nsswitch /etc/nsswitch.conf; exec "$@"' _ mpirun \
      --mca plm_rsh_agent "$self" --mca btl tcp,self,vader --mca btl_tcp_if_include 10.77.0.0/24 \
      --mca oob_tcp_if_include 10.77.0.0/24 --host "10.77.0.1:$(((n + 1) / 2)),10.77.0.2:$((n / 2))" \
      -n "$n" -x PATH "$@" ;;
  *) # as mpirun's remote shell: [options] HOST COMMAND...
    while [[ ${1:-} == -* ]]; do shift; done
    host=h${1##*.}; shift
    exec ip netns exec "$TWO_HOSTS-${host#h}" unshare -m -u -i -p -f --mount-proc bash -c "
      hostname $host; mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /tmp
      echo 'hosts: files' > /tmp/nsswitch; mount --bind /tmp/nsswitch /etc/nsswitch.conf
      cd '$PWD'; $*" ;;
esac
