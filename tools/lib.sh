# lib.sh
#	What the tools share: who runs what, building, installing, private servers.
#
# Sourced by bash scripts in tools/; leaves the top of the tree as the current
# folder.
#
# Servers do not start as root, and 15 finds extensions only in the
# installation.  So root (or sudo) installs, and everything that runs a server
# runs as "the tester": user postgres for root, else the caller.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# The make that called us: its job slots are not ours, and its variables came
# with the environment.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

PG_CONFIG=${PG_CONFIG:-pg_config}

say() {
	printf '%s\n' "$*"
}

die() {
	say "$(basename "$0"): $*" >&2
	exit 1
}

# One line per test, the same for every suite: verdict ok|FAILED|skipped kind name [note]
verdict() {
	printf "%-8s%-11s${4:+%-40s}%s\n" "$@"
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		say "need root, or sudo, for: $*" >&2
		return 1
	fi
}

# Finds the server; to be called when tools/deps is content.
find_server() {
	bindir=$("$PG_CONFIG" --bindir) || die "cannot run $PG_CONFIG"
	pkglibdir=$("$PG_CONFIG" --pkglibdir)
	sharedir=$("$PG_CONFIG" --sharedir)
	pgxs_src=$(dirname "$("$PG_CONFIG" --pgxs)")/..
}

# The library is one per machine: two runs at a time would replace it under each
# other's servers.  The lock is on the folder it goes to; it ends with the process.
lock_installation() {
	exec 9<"$pkglibdir"
	flock -n 9 && return
	say "waiting for another run that uses $pkglibdir"
	# In the background, so that a signal is answered while waiting.
	flock 9 &
	wait $!
}

unlock_installation() {
	exec 9<&-
}

# build folder [switch=1...]
build() {
	local folder=$1
	shift
	make -s -C "$folder" -j"$(nproc)" PG_CONFIG="$PG_CONFIG" ${CC:+CC="$CC"} "$@" all
}

# install_built folder [switch=1...]: the switches of the build, or it is made again.
install_built() {
	local folder=$1 root=as_root
	shift
	if [ -w "$pkglibdir" ] && [ -w "$sharedir/extension" ]; then
		root=
	fi
	$root make -s -C "$folder" PG_CONFIG="$PG_CONFIG" ${CC:+CC="$CC"} "$@" install >/dev/null
}

# prepare what: everything a tool needs before it starts a server.
prepare() {
	tools/deps "$1" || exit 1
	find_server
	lock_installation
	build . || die "the build failed"
	install_built . || die "could not install into $pkglibdir"
}

# use_folder path: where the tester works.  Sets $work, $tester and the array
# as_tester, a command prefix.  The environment is built from nothing, so that no
# PGHOST or PGOPTIONS of the caller gets in; C collation and UTF8 make results the
# same on every machine.  Background commands of a shell ignore SIGINT, which a
# test may need: hence --default-signal.
use_folder() {
	local switch=()
	work=$1
	tester=$(id -un)
	if [ "$(id -u)" = 0 ]; then
		tester=postgres
		id -u postgres >/dev/null 2>&1 || tester=nobody
		switch=(setpriv --reuid="$tester" --regid="$(id -g "$tester")" --init-groups)
	fi
	as_tester=("${switch[@]}" env -i --default-signal=INT -C "$work" PATH="$bindir:$PATH" HOME="$work"
		TMPDIR="$work/tmp" LANG=C.UTF-8 LC_COLLATE=C PG_CONFIG="$PG_CONFIG"
		UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1)
}

# Gives the folder, with what is in it by now, to the tester.
hand_over_folder() {
	mkdir -p "$work/tmp"
	chown -R "$tester" "$work"
}

# Prints the processes whose current folder is $1 or below: a server's is its
# data folder, and its children's too, also when the server itself was killed.
# A user's shell may be there as well; it has a terminal, which ours have not.
processes_in() {
	local process folder stat terminal
	for process in /proc/[0-9]*; do
		folder=$(readlink "$process/cwd") && read -r stat <"$process/stat" || continue
		# After the name: state, parent, group, session, terminal.
		read -r _ _ _ _ terminal _ <<<"${stat##*) }"
		case $terminal:$folder in
			0:"$1" | 0:"$1"/* | 0:"$1 (deleted)") say "${process#/proc/}" ;;
		esac
	done 2>/dev/null
}

# Ends what still runs in a folder, from polite to rude.  An immediate stop
# (QUIT) comes before KILL because it lets a server remove its shared memory.
end_processes_in() {
	local signal pids tries
	for signal in TERM QUIT KILL; do
		for tries in $(seq 25); do
			pids=$(processes_in "$1")
			[ -n "$pids" ] || return 0
			[ "$tries" != 1 ] || kill -s "$signal" $pids 2>/dev/null
			sleep 0.2
		done
	done
}

remove_folder() {
	end_processes_in "$1"
	rm -rf "$1"
}

# Where "make demo" works: one demo per user.
demo_folder() {
	local user
	user=$(id -un)
	say "/tmp/shardlet-demo-$user"
}

# start_cluster [line...]: a server in $work/data with database "app", on the
# socket $work and a free port of localhost; lines go to postgresql.conf.  Sets
# $port.
#
# Every user of the machine can reach localhost, so only the socket, in a folder of
# the tester's own, is without password; the server finds the password for
# connections to itself in PGPASSFILE.
start_cluster() {
	local password
	password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	chmod 700 "$work"
	"${as_tester[@]}" sh -c "umask 077 && echo '$password' >password && echo 'localhost:*:*:postgres:$password' >pgpass"
	"${as_tester[@]}" initdb -D "$work/data" -U postgres --auth-local=trust --auth-host=scram-sha-256 \
		--pwfile=password --encoding=UTF8 >"$work/tmp/initdb.log" 2>&1 || {
		cat "$work/tmp/initdb.log"
		return 1
	}
	"${as_tester[@]}" tee -a "$work/data/postgresql.conf" >/dev/null <<-CONF
		shared_preload_libraries = 'shardlet'
		wal_level = logical
		max_prepared_transactions = 64
		max_connections = 200
		max_wal_senders = 32
		max_replication_slots = 32
		max_worker_processes = 32
		unix_socket_directories = '$work'
		listen_addresses = 'localhost'
		# A cluster to throw away: what a crash of the machine would lose is no loss.
		fsync = off
		$(printf '%s\n' "$@")
	CONF
	for port in $(seq 54321 54399); do
		! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue
		if "${as_tester[@]}" PGPASSFILE="$work/pgpass" pg_ctl -D "$work/data" -l "$work/server.log" \
			-o "-p $port" -w start >/dev/null 2>&1 9<&-; then
			"${as_tester[@]}" createdb -h "$work" -p "$port" -U postgres app
			return
		fi
		# Another server may have been quicker; anything but that is an error.
		grep -q 'could not bind' "$work/server.log" || break
	done
	tail -n 20 "$work/server.log"
	return 1
}
