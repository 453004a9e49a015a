#!/bin/sh
# Stands for `bov train` in ablation_test:
# fake_trainer.sh HASHES CONFIG --run-dir FOLDER --threads N --quiet [--device DEVICE].
# HASHES has a line "FOLDER CONFIG_HASH" for each run. What it does depends on the name of the row.
config=$2
folder=$4
row=$(basename "$(dirname "$folder")")
hash=$(grep "^$folder " "$1" | cut -d' ' -f2)
stops=$folder/stops

[ -f "$config" ] || { echo "no config" >&2; exit 1; }
echo "$6 $OMP_NUM_THREADS ${CUDA_VISIBLE_DEVICES-none}${8:+ $8 $9}" >"$folder/environment"
echo start >>"$folder/starts"

log() { echo "{\"step\": $1, \"loss\": 2.5}" >>"$folder/metrics.jsonl"; }
result() { echo "{\"config_hash\": \"$hash\", $1}" >"$folder/result.json"; }
wait_for_signals() {
  log 4
  while :; do sleep 0.02; done
}
# The stubborn one needs two signals, as a trainer that hangs while it writes its checkpoint.
on_term() {
  echo x >>"$stops"
  [ "$row" = stubborn ] && [ "$(wc -l <"$stops")" -lt 2 ] || exit 143
}

case $row in
  bad) echo "bov: data.shards is 3" >&2; echo; exit 1 ;;
  crash) kill -KILL $$ ;;
  silent) exit 0 ;;
  diverging)
    result '"status": "diverged", "error": "step 4: the loss is nan"'
    echo "bov: diverged" >&2
    exit 1
    ;;
  slow | stubborn) trap on_term TERM; wait_for_signals ;;
  *)
    sleep 0.05
    log 10
    result '"status": "completed", "validation_bpb": 1.25, "tokens_per_second": 100.0, "coefficients": {"8": {"gamma": 0.5}}'
    ;;
esac
