# Runs a server and ends it when this script's input ends: the process that started us cannot leave it behind, not even
# by being killed. A line before the end of the input means that it is alive and wants to keep the directory. There are two
# lines, because the one who reads the first may be ended while it does.
#   $1 log   $2 directory of the server   $3 the signal that ends it   $4... the server and its arguments
# The first line of the output is the server's process id. The exit code is the server's.
log=$1 directory=$2 ending=$3
shift 3
exec 3<&0 </dev/null
"$@" 3<&- >>"$log" 2>&1 &
server=$!
# When the process that started us ends while the server is stopped, the kernel hangs up on us all.
trap '' HUP
(
  word=
  read -r word
  trap '' TERM
  kill "-$ending" "$server"
  if [ "$ending" -ne 9 ]; then
    # It may have been stopped, and then it hears nothing.
    kill -CONT "$server"
    tries=100
    while [ "$tries" -gt 0 ] && kill -0 "$server"; do
      sleep 0.1
      tries=$((tries - 1))
    done
    kill -9 "$server"
  fi
  [ -n "$word" ] || { sleep 0.1; rm -rf "$directory"; }
  exit 0
) <&3 >/dev/null &
watch=$!
echo "$server"
exec >/dev/null
wait "$server"
code=$?
kill "$watch"
# The server has ended by itself, and its directory is there until the process that started us wants to keep it or ends.
if ! wait "$watch"; then
  (
    word=
    read -r word
    [ -n "$word" ] || { sleep 0.1; rm -rf "$directory"; }
  ) <&3 >/dev/null &
fi
exit "$code"
