# Settings of Open MPI; sourced by launch/setup.sh and experiments/gpu/run_all.sh. By default it
# refuses root and more processes than cores. On a busy machine its mpirun occasionally mistakes a
# process that has finalised for one that has not, and exits with 1.
export OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_orte_allowed_exit_without_sync=1
