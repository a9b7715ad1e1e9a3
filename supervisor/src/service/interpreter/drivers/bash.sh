# The bash of a code interpreter's context. Requests come in on standard input, each ended by a zero byte: its number,
# and the code. What goes out is what python.py says at its beginning.
exec 9<&0 8>&1 7>&2 </dev/null
# An interrupt ends what runs, not the shell.
trap : INT
printf '\036.{"type":"ready"}\n' >&8
while IFS= read -r -d '' __rekindle_id <&9 && IFS= read -r -d '' __rekindle_code <&9; do
  (( __rekindle_count += 1 ))
  for __rekindle_out in 7 8; do printf '\036.{"type":"begin","id":%d}\n' "$__rekindle_id" >&"$__rekindle_out"; done
  printf '\036.{"type":"number_of_executions","execution_count":%d}\n' "$__rekindle_count" >&8
  eval "$__rekindle_code" 7>&- 8>&- 9<&-
  __rekindle_status=$?
  if (( __rekindle_status != 0 )); then
    printf '\036.{"type":"error","name":"ExitStatus","value":"%d","traceback":""}\n' "$__rekindle_status" >&8
  fi
  for __rekindle_out in 7 8; do printf '\036.{"type":"end","id":%d}\n' "$__rekindle_id" >&"$__rekindle_out"; done
done
