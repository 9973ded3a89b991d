#include "launch/inputs/launcher_tables.h"

namespace prism::launch {

const LaunchVariables kTorchVariables = {{"RANK", "{rank}"},
                                         {"WORLD_SIZE", "{world}"},
                                         {"LOCAL_RANK", "{local}"},
                                         {"LOCAL_WORLD_SIZE", "{local_world}"},
                                         {"GROUP_RANK", "{node}"},
                                         {"GROUP_WORLD_SIZE", "{nodes}"},
                                         {"ROLE_NAME", "default"},
                                         {"ROLE_RANK", "{rank}"},
                                         {"ROLE_WORLD_SIZE", "{world}"},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"MASTER_PORT", "29500"},
                                         {"TORCHELASTIC_RESTART_COUNT", "0"},
                                         {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                         {"TORCHELASTIC_RUN_ID", "none"},
                                         {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                         {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}};

const LaunchVariables kDeepSpeedVariables = {{"RANK", "{rank}"},
                                             {"WORLD_SIZE", "{world}"},
                                             {"LOCAL_RANK", "{local}"},
                                             {"LOCAL_SIZE", "{local_world}"},
                                             {"CROSS_RANK", "{node}"},
                                             {"CROSS_SIZE", "{nodes}"},
                                             {"MASTER_ADDR", "127.0.0.1"},
                                             {"MASTER_PORT", "29500"},
                                             {"CUDA_VISIBLE_DEVICES", "{gpus}"}};

// Those that Slurm gives each task, of which a program without a launcher gets the first five.
const LaunchVariables kSlurmVariables = {{"SLURM_PROCID", "{rank}"},
                                         {"SLURM_NTASKS", "{world}"},
                                         {"SLURM_LOCALID", "{local}"},
                                         {"SLURM_NODEID", "{node}"},
                                         {"SLURM_NNODES", "{nodes}"},
                                         {"SLURM_NPROCS", "{world}"},
                                         {"SLURM_STEP_NUM_TASKS", "{world}"},
                                         {"SLURM_STEP_NUM_NODES", "{nodes}"},
                                         {"SLURM_JOB_NUM_NODES", "{nodes}"},
                                         {"SLURM_NTASKS_PER_NODE", "{local_world}"},
                                         {"SLURM_TASKS_PER_NODE", "{tasks}"},
                                         {"SLURM_STEP_TASKS_PER_NODE", "{tasks}"},
                                         {"SLURM_GPUS_ON_NODE", "{local_world}"},
                                         {"SLURM_JOB_NODELIST", "{hosts}"},
                                         {"SLURM_NODELIST", "{hosts}"},
                                         {"SLURM_STEP_NODELIST", "{hosts}"},
                                         {"SLURMD_NODENAME", "node{node}"},
                                         {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"},
                                         {"SLURM_JOB_ID", "1"},
                                         {"SLURM_JOBID", "1"},
                                         {"SLURM_STEP_ID", "0"}};
const LaunchVariables kOpenMpiVariables = {
    {"OMPI_COMM_WORLD_RANK", "{rank}"},        {"OMPI_COMM_WORLD_SIZE", "{world}"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "{local}"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "{local_world}"},
    {"OMPI_COMM_WORLD_NODE_RANK", "{local}"},  {"OMPI_UNIVERSE_SIZE", "{world}"}};

namespace {

constexpr const char* kTorchUsed =
    "nnodes= nproc-per-node= m|module no-python role= rdzv-id= max-restarts= use-env";
constexpr const char* kTorchIgnored =
    "rdzv-backend= rdzv-endpoint= rdzv-conf= standalone monitor-interval= start-method= "
    "event-log-handler= run-path log-dir= r|redirects= t|tee= local-ranks-filter= "
    "duplicate-stdout-filters= duplicate-stderr-filters= node-rank= master-addr= master-port= "
    "local-addr= logs-specs= numa-binding= signals-to-handle= virtual-local-rank";

}  // namespace

const LauncherOptions kTorchrun = {"torchrun", kTorchUsed, kTorchIgnored};
const LauncherOptions kTorchLaunch = {"torch.distributed.launch", kTorchUsed, kTorchIgnored};
const LauncherOptions kDeepSpeed = {
    "deepspeed",
    "H|hostfile= i|include= e|exclude= num-nodes= num-gpus|num-accelerators= module no-python "
    "no-local-rank",
    "master-port= master-addr= node-rank= launcher= launcher-args= no-ssh no-ssh-check force-multi "
    "save-pid enable-each-rank-log= bind-cores-to-rank bind-core-list= ssh-port= venv-script= "
    "log-level= q|quiet"};
const LauncherOptions kSrun = {
    "srun", "n|ntasks= N|nodes= ntasks-per-node= export=",
    "A|account= p|partition= q|qos= t|time= J|job-name= o|output= e|error= i|input= w|nodelist= "
    "x|exclude= C|constraint= c|cpus-per-task= G|gpus= gpus-per-node= gpus-per-task= "
    "ntasks-per-gpu= gres= gpu-bind= gpu-freq= cpu-bind= mem-bind= mem= mem-per-cpu= mem-per-gpu= "
    "m|distribution= mpi= network= reservation= jobid= l|label u|unbuffered v|verbose Q|quiet "
    "K|kill-on-bad-exit= W|wait= exclusive overlap exact container-image= container-mounts= "
    "container-name= container-workdir= no-container-mount-home container-writable "
    "container-env= s|oversubscribe het-group= hint= threads-per-core= cores-per-socket= "
    "ntasks-per-socket= comment= priority= propagate= I|immediate nice="};
const LauncherOptions kMpirun = {
    "mpirun", "n|np|c= npernode|N|ppn|perhost= map-by= x= genv== env==",
    "H|host|hosts= hostfile|machinefile|f= bind-to= rank-by= mca== gmca== prefix= tag-output "
    "timestamp-output oversubscribe nooversubscribe use-hwthread-cpus allow-run-as-root q|quiet "
    "v|verbose display-map display-allocation report-bindings output-filename= "
    "merge-stderr-to-stdout "
    "bynode byslot bycore nolocal novm launch-agent= tune= timeout= report-pid= genvall envall l",
    /*one_dash=*/true};
const LauncherOptions kAccelerate = {
    "accelerate launch",
    "config-file= cpu use-cpu multi-gpu mixed-precision= num-processes= num-machines= "
    "dynamo-backend= dynamo-mode= dynamo-use-fullgraph dynamo-use-dynamic "
    "dynamo-use-regional-compilation use-deepspeed use-fsdp use-parallelism-config "
    "use-megatron-lm m|module no-python tpu debug enable-cpu-affinity deepspeed-config-file= "
    "zero-stage= offload-optimizer-device= offload-param-device= offload-optimizer-nvme-path= "
    "offload-param-nvme-path= gradient-accumulation-steps= gradient-clipping= zero3-init-flag= "
    "zero3-save-16bit-model= deepspeed-moe-layer-cls-names= deepspeed-multinode-launcher= "
    "fsdp-*= megatron-lm-*= fp8-*= parallelism-config-*=",
    "q|quiet num-cpu-threads-per-process= gpu-ids= same-network machine-rank= main-process-ip= "
    "main-process-port= t|tee= log-dir= role= rdzv-backend= rdzv-conf= max-restarts= "
    "monitor-interval= tpu-cluster no-tpu-cluster tpu-use-sudo vm= env= main-training-function= "
    "downcast-bf16 deepspeed-hostfile= deepspeed-exclusion-filter= deepspeed-inclusion-filter= "
    "aws-access-key-id= aws-secret-access-key= mpirun-hostfile=",
    /*one_dash=*/false,
    /*abbreviates=*/false};

}  // namespace prism::launch
