#!/bin/sh
# Installs the Debian package, runs its unit's command line as its user, asks the server, upgrades,
# removes and purges. Runs as root in a copy of the machine. Arguments: the package, a newer one, and
# a folder for a pipe.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
old=$1 new=$2 folder=$3
unit=/usr/lib/systemd/system/tollgate.service
config=/etc/tollgate/tollgate.yaml

fail() { echo "FAILED: $*"; exit 1; }
of_unit() { sed -n "s/^$1=//p" "$unit"; }

start() {
    rm -f "$folder/banner"; mkfifo "$folder/banner"
    set -a; . /etc/tollgate/environment; set +a
    install -d -o "$(of_unit User)" "/var/lib/$(of_unit StateDirectory)"
    # The words of the command line, as systemd separates them.
    # shellcheck disable=SC2046
    setpriv --reuid "$(of_unit User)" --regid "$(of_unit User)" --clear-groups --no-new-privs \
        --bounding-set=-all $(of_unit ExecStart) > "$folder/banner" 2> "$folder/log" &
    pid=$!
    exec 3< "$folder/banner"
    while read -r line <&3; do
        case $line in "HTTP on "*) address=${line#HTTP on }; return ;; esac
    done
    fail "it ended: $(cat "$folder/log")"
}
stop() { kill -TERM "$pid"; wait "$pid" || fail "it ended with $?"; exec 3<&-; }
ask() { curl -fsS "http://$address/v1/acquire" -d '{"key":"user:1"}' | grep -q '"allowed":true'; }

# Else dpkg makes the index of all manual pages of the machine anew, each time.
rm -f /var/lib/man-db/auto-update
dpkg --install "$old"
test "$(dpkg-query -W -f '${Status}' tollgate)" = 'install ok installed'
dpkg --verify tollgate
test "$(dpkg-query -W -f '${Conffiles}' tollgate | grep -c "$config")" = 1
id tollgate
tollgate lint "$config"
ls /usr/share/man/man1/tollgate*.1.gz | xargs gzip --test
bash -n /usr/share/bash-completion/completions/tollgate
test -s /usr/share/zsh/vendor-completions/_tollgate
test -s /usr/share/fish/vendor_completions.d/tollgate.fish

# What an administrator adds: the addresses and a store in a file, and a policy.
umask 077
cat > /etc/tollgate/environment <<END
TOLLGATE_HTTP=127.0.0.1:0
TOLLGATE_GRPC=off
TOLLGATE_RESP=off
TOLLGATE_STORE=sqlite:/var/lib/tollgate/limits.db
END
echo '  added: {limit: 5 per 1m}' >> "$config"
start
test "$(ps -o user= -p "$pid")" = tollgate
ask
curl -fsS "http://$address/" | grep -q '<title>'
tollgate peek --server "http://$address" --policy added user:1 | grep '^allowed, 5 of 5 left$'
stop
echo "installed and asked"

cp /usr/bin/tollgate "$folder/old"
dpkg --install "$new"
cmp -s /usr/bin/tollgate "$folder/old" && fail "the binary is the old one"
grep -q added "$config" || fail "the configuration was replaced"
test ! -e "$config.dpkg-dist"
start
ask
tollgate peek --server "http://$address" user:1 | grep -v '^allowed, 20 of' || fail "limits are lost"
stop
echo "upgraded"

dpkg --remove tollgate
test ! -e /usr/bin/tollgate && test ! -e "$unit" && test -s "$config"
dpkg --purge tollgate
test ! -e /etc/tollgate && test ! -e /var/lib/tollgate
if dpkg-query -W -f '${Status}' tollgate 2> /dev/null; then fail "it is still known"; fi
echo "removed and purged"
