#!/usr/bin/env bash
# Two hosts on this machine, for tests: network namespaces NAME-1 (10.77.0.1) and NAME-2 (10.77.0.2)
# behind a switch NAME-0, with host names h1 and h2; h2 has process ids, /dev/shm and /tmp of its
# own. Needs root and iproute2.
#   two_hosts.sh NAME up | down | cut | kill PROGRAM [SIGNAL]
#   two_hosts.sh NAME mpirun N COMMAND...     N processes, half on each host
#   two_hosts.sh NAME slurm FOLDER            Slurm's daemons, with their files in FOLDER
#   two_hosts.sh NAME on h1|h2 COMMAND...     with SLURM_CONF of that folder, if it is set
set -euo pipefail
self=$(readlink -f "$0")
name=$1

# A host's shell: its name, and nothing shared but the network and the file system. Names are looked
# up in a file of the host, so that nobody waits for an answer.
enter() { # HOST COMMAND
  exec ip netns exec "$name-${1#h}" unshare -m -u -i -p -f --kill-child --mount-proc bash -c "
    hostname $1; mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /tmp
    echo 'hosts: files' > /tmp/nsswitch; mount --bind /tmp/nsswitch /etc/nsswitch.conf
    printf '127.0.0.1 localhost\n10.77.0.1 h1\n10.77.0.2 h2\n' > /tmp/hosts
    mount --bind /tmp/hosts /etc/hosts
    cd '$PWD'; $2"
}

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
    for n in 1 2 0; do
      for process in $(ip netns pids "$1-$n"); do kill -9 "$process" || true; done
      ip netns del "$1-$n" || true
    done ;;
  cut)
    ip -n "$1-0" link set port2 down ;;
  kill) # a program's first process on h2
    for process in $(ip netns pids "$1-2" | sort -n); do
      if [[ $(cat "/proc/$process/comm") == "$3" ]]; then kill -"${4:-9}" "$process"; exit; fi
    done
    exit 1 ;;
  mpirun)
    n=$3; shift 3
    export TWO_HOSTS=$name
    # Names are looked up nowhere, so that nobody waits for an answer.
    exec ip netns exec "$name-1" unshare -m -u bash -c '
      hostname h1; mount -t tmpfs tmpfs /mnt; echo "hosts: files" > /mnt/nsswitch; mount --bind /mnt/nsswitch /etc/nsswitch.conf; exec "$@"' _ mpirun \
      --mca plm_rsh_agent "$self" --mca btl tcp,self,vader --mca btl_tcp_if_include 10.77.0.0/24 \
      --mca oob_tcp_if_include 10.77.0.0/24 --host "10.77.0.1:$(((n + 1) / 2)),10.77.0.2:$((n / 2))" \
      -n "$n" -x PATH "$@" ;;
  slurm)
    folder=$3
    mkdir -p "$folder/state"
    echo CgroupPlugin=cgroup/v1 > "$folder/cgroup.conf" # none is used
    cat > "$folder/slurm.conf" <<END
ClusterName=two
SlurmctldHost=h1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
NodeName=h1 NodeAddr=10.77.0.1 CPUs=4 Boards=1 State=UNKNOWN
NodeName=h2 NodeAddr=10.77.0.2 CPUs=4 Boards=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
SlurmdParameters=config_overrides
END
    export SLURM_CONF=$folder/slurm.conf
    for daemon in "h1 slurmctld -D" "h1 slurmd -D -N h1" "h2 slurmd -D -N h2"; do
      (enter "${daemon%% *}" "exec ${daemon#* }") > /dev/null 2>&1 < /dev/null &
    done
    for _ in {1..600}; do
      if [[ $(ip netns exec "$name-1" sinfo --noheader --format=%D --states=idle 2>&1) == 2 ]]; then
        exit
      fi
      sleep 0.1
    done
    tail -n 20 "$folder"/*.log
    exit 1 ;;
  on)
    host=$3; shift 3
    enter "$host" "exec ${*@Q}" ;;
  *) # as mpirun's remote shell: [options] HOST COMMAND...
    while [[ ${1:-} == -* ]]; do shift; done
    host=h${1##*.}; shift
    name=$TWO_HOSTS
    enter "$host" "$*" ;;
esac
