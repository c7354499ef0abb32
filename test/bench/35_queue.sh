# A queue: eight workers that take one job each, over four shards and on one plain table.
#
# Each round has jobs enough for its time.  A worker that finds nothing while there are
# jobs would make the figure better than it is: the jobs that were done are counted, not
# the statements.
seconds=${BENCH_SECONDS:-3}
psql -Xq <<'END' >/dev/null
SELECT shardlet.create_map('queue');
CREATE TABLE job (id bigint PRIMARY KEY, st text NOT NULL DEFAULT 'new');
CREATE INDEX job_new ON job (id) WHERE st = 'new';
SELECT shardlet.distribute('job', 'queue', 'id');
CREATE TABLE job_plain (id bigint PRIMARY KEY, st text NOT NULL DEFAULT 'new');
CREATE INDEX job_plain_new ON job_plain (id) WHERE st = 'new';
END

# take table limit: takes jobs off it.
take() {
	echo "UPDATE $1 SET st = 'done' WHERE id IN (SELECT id FROM $1 WHERE st = 'new' ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED);"
}

# jobs table limit clients: jobs that the workers take in a second.
jobs() {
	take "$1" "$2" >take.pgbench
	psql -Xq -c "TRUNCATE $1" -c "INSERT INTO $1 (id) SELECT generate_series(1, 20000 * $seconds)" -c "VACUUM ANALYZE $1" >/dev/null
	pgbench -n -M prepared -c "$3" -T "$seconds" -f take.pgbench app >/dev/null
	psql -XAtq -c "SELECT count(*) / $seconds.0 FROM $1 WHERE st = 'done'"
}

for limit in 1 10; do
	for clients in 1 8; do
		figure "jobs from a plain table / from four shards, LIMIT $limit, $clients workers" "$(for _ in $(seq "$rounds"); do
			echo "$(jobs job_plain $limit $clients) $(jobs job $limit $clients)"
		done | awk '{ print $1 / $2 }' | median | awk '{ printf "%.2f\n", $1 }')"
	done
done
