#!/usr/bin/env bash
# The cells of a table in several processes at once on one GPU, then the table:
#     benchmarks/reproduce.sh TABLE DATASET DATA OUT [options of dgn reproduce]
# Processes share the GPU through NVIDIA's MPS where it is installed; without it they take turns.
set -euo pipefail
table=$1 dataset=$2 data=$3 out=$4
shift 4
export CUDA_MPS_PIPE_DIRECTORY=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/mps} CUDA_MPS_LOG_DIRECTORY=${CUDA_MPS_LOG_DIRECTORY:-/tmp/mps}
mkdir -p "$out"
if command -v nvidia-cuda-mps-control > /dev/null; then
  mkdir -p "$CUDA_MPS_PIPE_DIRECTORY"
  nvidia-cuda-mps-control -d || true # it may be running already
fi
cells() { python3 -m dgn reproduce "$table" --dataset "$dataset" --data "$data" --out "$out" --device cuda "${@}"; }
start=$SECONDS
case $table in
  plus) groups="plus plus-500k no-directions no-averaging no-feed-forward no-structure" ;;
  *) groups="mean,mean-dx1 mean-dx1-dx2,mean-dx1-av1 mean-av1,mean-av1-av2 mean-pos1,mean-pos1-pos2" ;;
esac
for rows in $groups; do # a row that a dataset does not have is refused in its log
  cells --rows "$rows" "$@" > "$out/${rows%%,*}.log" 2>&1 &
done
wait
cells "$@"
echo "$((SECONDS - start)) seconds for all of it"
