
# What happens to tables while a shardlet of theirs is moved: rows that come to it by
# an UPDATE of the key, DDL, and connections to its new shard.

use strict;
use warnings;

use MoveProbe;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use WireClient;

my $c = ShardletCluster->new(shards => 2, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $probe = MoveProbe->new($c, shards => 2);

# Lets a move come to a point, does something, and sees to it that the move ends well.
sub while_moving
{
	my ($mode, $point, $what) = @_;
	my ($status, undef, $stderr) = $c->psql_end($probe->meanwhile($mode, $point, $what));

	is($c->sqlstate_of($status, $stderr), '', "$mode, $point: the move ends");
	return;
}

# Some keys of the shardlet that is moved, and of others on its shard.
sub keys_of
{
	my ($is_moved, $count) = @_;
	return split /\n/, $c->sql(qq{
		SELECT k FROM generate_series(1000, 2000) k, shardlet.locate('mv', k) l
		WHERE l.shard = '@{[$probe->owner]}' AND (l.shardlet = $probe->{shardlet}) = $is_moved LIMIT $count});
}

# Sessions that use the shardlet connect to its new shard ahead of the switch, and without
# a word: whether it is there does not matter to them yet.
my ($own) = keys_of('true', 1);
my ($neighbour) = keys_of('false', 1);
$c->sql('CREATE TABLE calls (k bigint PRIMARY KEY, n int); ' . q{SELECT shardlet.distribute('calls', 'mv', 'k')});
$c->sql("INSERT INTO calls VALUES ($own, 0), ($neighbour, 0)");
while_moving('online', 'move_switch', sub {
	my $target = $c->shard($probe->{to});
	my $connections = sub {
		my ($key, $times) = @_;
		return $c->sql(qq{
			DO 'BEGIN FOR i IN 1 .. $times LOOP UPDATE calls SET n = n + 1 WHERE k = $key; PERFORM pg_sleep(0.002); END LOOP; END';
			SELECT count(*) FILTER (WHERE state = 'idle') FROM shardlet.connections WHERE pid = pg_backend_pid() AND shard = '$probe->{to}'});
	};

	is($connections->($neighbour, 300), '0', 'other shardlets are no reason to connect');
	is($connections->($own, 300), '1', 'the new shard is connected to before the switch');
	$target->stop('immediate');
	is($connections->($own, 100), '0', 'if it is away nobody is told');
	$target->start;
	is($connections->($own, 300), '1', 'until it is back');
});
is($c->sql("SELECT n FROM calls WHERE k = $own"), '700', 'no change is lost');

# The switch can be seen, and is done by the shards, a moment before sessions are told of
# it.  A session that begins in between reads at the new place, and goes on doing so; with
# shardlet.consistent_reads it waits for the switch to end.
my $first_value;
my $folder = $c->router->data_dir;
my $reader = WireClient->new($c->router, 'app');
my $read = sub { return ($reader->simple("SELECT n FROM calls WHERE k = $own"))[0]{rows}[0][0] };
append_to_file("$folder/commit", 'go');
my $mover = $probe->meanwhile('online', 'move_switch', sub {
	$first_value = $read->();
	unlink "$folder/commit" or die "cannot remove $folder/commit: $!";
}, 'txn_after_commit_record:wait=commit');
ok($c->poll("SELECT shard FROM shardlet.shardlets WHERE shardlet = $probe->{shardlet}", $probe->{to}, 30), 'the switch is committed');
$reader->simple('SET shardlet.consistent_reads = off');
$reader->simple('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($read->(), $first_value, 'a row is read');
append_to_file("$folder/commit", 'go');
$c->sql("UPDATE calls SET n = n + 1 WHERE k = $own");
is($read->(), $first_value, 'it stays the same in the transaction');
$reader->simple('COMMIT');
is($read->(), $first_value + 1, 'and has changed behind it');
is(($c->psql_end($mover))[0], 0, 'the move ends');
is($c->sql("SELECT n FROM calls WHERE k = $own"), $first_value + 1, 'no change is lost by the switch');

# Changes that cannot come for a moment come later; those that never can end the move.
while_moving('online', 'move_follow', sub {
	$c->shard($probe->{from})->safe_psql('app', 'SELECT pg_terminate_backend(pid) FROM pg_stat_replication');
	$c->sql("UPDATE calls SET n = n + 1 WHERE k = $own");
});
is($c->sql("SELECT n FROM calls WHERE k = $own"), $first_value + 2, 'a stream that breaks off loses nothing');
my $refused = $probe->meanwhile('online', 'move_follow', sub {
	$c->shard($probe->{to})->safe_psql('app', 'ALTER TABLE calls ADD CONSTRAINT few CHECK (n < 0) NOT VALID');
	$c->sql("UPDATE calls SET n = n + 1 WHERE k = $own");
});
like(($c->psql_end($refused))[2], qr/move \d+ was undone.*shard "$probe->{to}" could not apply changes/s, 'a change that the new shard refuses');
is($c->sql("SELECT n FROM calls WHERE k = $own"), $first_value + 3, 'is not lost either');
$c->shard($probe->{to})->safe_psql('app', 'ALTER TABLE calls DROP CONSTRAINT few');

# A value that is stored out of line must come along, though the UPDATE does not
# name it.
my $body = q{(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 2000) i)};
$c->sql(q{
	CREATE TABLE docs (id bigint PRIMARY KEY, n int, body text, more jsonb, size int DEFAULT 9000,
		filler text GENERATED ALWAYS AS (repeat('x', size)) STORED);
	ALTER TABLE docs ALTER body SET STORAGE EXTERNAL, ALTER filler SET STORAGE EXTERNAL;
	CREATE TABLE pages (doc_id bigint REFERENCES docs ON UPDATE CASCADE, id int, body text, PRIMARY KEY (doc_id, id));
	ALTER TABLE pages ALTER body SET STORAGE EXTERNAL;
	CREATE TABLE parts (id bigint, at int, body text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
	CREATE TABLE parts_2 (body text, at int NOT NULL, id bigint NOT NULL);
	ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
	ALTER TABLE parts_1 ALTER body SET STORAGE EXTERNAL;
	ALTER TABLE parts_2 ALTER body SET STORAGE EXTERNAL;
	SELECT shardlet.distribute_tables('{docs, pages}', 'mv', '{id, doc_id}');
	SELECT shardlet.distribute('parts', 'mv', 'id')});
my @from = keys_of('false', 5);
my @to = keys_of('true', 5);
$c->sql("INSERT INTO docs SELECT k, 1, $body, '{\"a\": 1}' FROM unnest(ARRAY[" . join(', ', @from) . ']) k');
$c->sql("INSERT INTO parts SELECT k, at, $body FROM unnest(ARRAY[" . join(', ', @from) . ']) k, unnest(ARRAY[5, 15]) at');
$c->sql("INSERT INTO pages VALUES ($from[4], 1, $body), ($from[3], 1, 'short')");
my $sums = sub { return $c->sql(qq{
	SELECT (SELECT count(*) FROM docs WHERE body = $body AND more = '{"a": 1}' AND length(filler) = 9000), (SELECT count(*) FROM parts WHERE body = $body)}) };
is($sums->(), '5|10', 'values that are stored out of line');
while_moving('online', 'move_switch', sub {
	my $source = $c->shard($probe->{from});

	$c->sql("UPDATE docs SET id = $to[0], n = n + 1 WHERE id = $from[0]");
	$c->sql("UPDATE parts SET id = $to[0] WHERE id = $from[0]");
	my ($status, undef, $stderr) = $c->psql_err("UPDATE docs SET id = $to[1] WHERE id = $from[1]", node => $source);
	is($c->sqlstate_of($status, $stderr), 'SL003', 'such a value and an UPDATE on the shard');
	like($stderr, qr/row of table "docs" cannot get a key of shardlet $probe->{shardlet} now.*column "body".*HINT:  Change the key through the router/s, 'with a hint');
	is($c->sqlstate("UPDATE parts SET id = $to[1] WHERE id = $from[1] AND at = 15", node => $source), 'SL003', 'in a partition as well');
	is($c->sqlstate("UPDATE parts SET id = $to[1], at = 6 WHERE id = $from[1] AND at = 15", node => $source), '', 'another partition gets all of it');
	is($c->sqlstate("UPDATE docs SET id = $to[1], body = body || '' WHERE id = $from[1]", node => $source), '', 'a value that is written anew');
	is($c->sqlstate("UPDATE docs SET id = $to[3] WHERE id = $from[3]"), '', 'a foreign key that cascades');
	is($c->sqlstate("UPDATE docs SET id = $to[4] WHERE id = $from[4]"), 'SL003', 'unless what refers has such a value');
	is($c->sqlstate("UPDATE docs SET n = 7 WHERE id = $to[0]"), '', 'an UPDATE within the shardlet');
});
is($sums->(), '5|10', 'all values have come along');
is($c->sql("SELECT string_agg((id = ANY ('{" . join(',', @to) . "}'))::text || n, ' ' ORDER BY id = ANY ('{" . join(',', @to) . "}'), n) FROM docs"),
	'false1 false1 true1 true1 true7', 'and all changes');
is($c->sql("SELECT count(*) FROM pages WHERE doc_id IN ($to[3], $from[4])"), '2', 'and rows that refer to them');

# Out of the shardlet they go as they are.
@from = keys_of('true', 5);
@to = keys_of('false', 5);
while_moving('online', 'move_switch', sub {
	my $source = $c->shard($probe->{from});
	my $key = $c->shard_sql($probe->{from}, 'SELECT min(id) FROM docs WHERE id = ANY (\'{' . join(',', @from) . '}\')');

	is($c->sqlstate("UPDATE docs SET id = $to[0] WHERE id = $key", node => $source), '', 'out of the shardlet');
});
is($sums->(), '5|10', 'all values are there');

# One that began before the move does not write all of the row, and has to be run again.
@from = keys_of('false', 1);
@to = keys_of('true', 9);
$c->sql("INSERT INTO docs VALUES ($from[0], 1, $body, '{\"a\": 1}')");
my $before_move = $c->psql_begin("UPDATE docs SET id = $to[8] WHERE id = $from[0] AND (SELECT pg_sleep(4)) IS NOT NULL");
$c->poll(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}, '1');
while_moving('online', 'move_switch', sub {
	my ($status, undef, $stderr) = $c->psql_end($before_move);

	is($c->sqlstate_of($status, $stderr), '40001', 'an UPDATE of the key that began before the move');
	is($c->sqlstate("UPDATE docs SET id = $to[8] WHERE id = $from[0]"), '', 'the next one comes with all of the row');
});
is($sums->(), '6|10', 'nothing of it is lost');

$c->sql('DROP TABLE pages, docs, parts');
$probe->is_whole('after updates of keys');

# The table is rewritten while orphaned rows are removed, so that some get into blocks
# that were done.  The rows fill a block each, and behind blocks of others that are empty.
my ($mine, $others) = map {
	$c->sql(qq{SELECT string_agg(k::text, ',') FROM (SELECT k FROM generate_series(1, 40000) k
		WHERE ((shardlet.locate('mv', k)).shardlet = $probe->{shardlet}) = $_->[0] AND shardlet.route('mv', k) = '} . $probe->owner . "' LIMIT $_->[1]) k")
} ['true', 4500], ['false', 1500];
$c->sql(q{CREATE TABLE wide (k bigint PRIMARY KEY, filler text);
	ALTER TABLE wide ALTER filler SET STORAGE PLAIN;
	SELECT shardlet.distribute('wide', 'mv', 'k')});
$c->sql("INSERT INTO wide SELECT k, repeat('x', 5000) FROM unnest('{$_}'::bigint[]) k") for $others, $mine;
$c->sql("DELETE FROM wide WHERE k = ANY ('{$others}')");
my $crowded = $c->shard($probe->owner);
$crowded->safe_psql('app', 'VACUUM wide');
my $locker = $crowded->background_psql('app');
$locker->query_safe(q{BEGIN; SELECT count(*) FROM (SELECT k FROM wide WHERE k IN
	(SELECT min(k) FROM wide GROUP BY (ctid::text::point)[0]::int / 1024) FOR UPDATE) x});
my $moving = $probe->start_move('read_only', '');
$c->poll('SELECT phase FROM shardlet.moves WHERE open', 'remove');
$crowded->poll_query_until('app', q{SELECT count(*) = 2 FROM pg_stat_activity WHERE query LIKE '%DELETE FROM public.wide%' AND wait_event_type = 'Lock'});
my $rewrite = $c->psql_begin('VACUUM FULL wide', node => $crowded);
$crowded->poll_query_until('app', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'VACUUM FULL%' AND wait_event_type = 'Lock'});
$locker->query_safe('COMMIT');
$locker->quit;
is(($c->psql_end($rewrite))[0], 0, 'VACUUM FULL while rows are removed');
is($c->sqlstate_of(($c->psql_end($moving))[0, 2]), '', 'the move ends');
is($crowded->safe_psql('app', 'SELECT count(*) FROM wide'), '0', 'and has found all rows');
is($c->sql('SELECT count(*) FROM wide'), '4500', 'that are elsewhere now');
$c->sql('DROP TABLE wide');

# DDL that would make the copy another one has to wait; all other does not.
$c->sql(q{
	CREATE TABLE facts (k bigint, at int, v text CHECK (v <> ''), w int NOT NULL DEFAULT 1, note text, g int GENERATED ALWAYS AS (at * 2) STORED,
		PRIMARY KEY (k, at), CONSTRAINT facts_once UNIQUE (k, w));
	SELECT shardlet.distribute('facts', 'mv', 'k');
	INSERT INTO facts SELECT i, i, i FROM generate_series(1, 200) i;
	CREATE UNIQUE INDEX facts_unique ON facts (k, v);
	CREATE INDEX facts_plain ON facts (v);
	CREATE TABLE logs (k bigint, at int, PRIMARY KEY (k, at)) PARTITION BY RANGE (at);
	CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM (0) TO (10);
	SELECT shardlet.distribute('logs', 'mv', 'k');
	CREATE TABLE notes (k bigint NOT NULL, v text);
	ALTER TABLE notes REPLICA IDENTITY FULL;
	SELECT shardlet.distribute('notes', 'mv', 'k')});
my @waits = (
	'ALTER TABLE facts ADD id bigserial',
	'ALTER TABLE facts ADD id bigint GENERATED BY DEFAULT AS IDENTITY',
	'ALTER TABLE facts ADD u uuid DEFAULT gen_random_uuid()',
	'ALTER TABLE facts ADD t timestamptz DEFAULT now()',
	'ALTER TABLE facts ADD twice int GENERATED ALWAYS AS (w * 2) STORED',
	'ALTER TABLE facts ADD n int, ALTER v TYPE int USING v::int * 100',
	'ALTER TABLE facts ALTER w TYPE bigint',
	'ALTER TABLE facts ALTER w SET DEFAULT 2',
	'ALTER TABLE facts ALTER w DROP DEFAULT',
	'ALTER TABLE facts ALTER g DROP EXPRESSION',
	'ALTER TABLE facts REPLICA IDENTITY FULL',
	'ALTER TABLE facts DROP CONSTRAINT facts_pkey',
	'ALTER TABLE facts DROP CONSTRAINT facts_once',
	'ALTER TABLE facts DROP at',
	'ALTER TABLE facts DROP note, ADD note text',
	'ALTER TABLE facts RENAME note TO remark',
	'ALTER TABLE facts RENAME TO old_facts',
	'ALTER TABLE facts SET SCHEMA pg_temp',
	'ALTER SCHEMA public RENAME TO private',
	'DROP INDEX facts_unique',
	'DROP INDEX CONCURRENTLY facts_unique',
	'ALTER TABLE notes ADD w int DEFAULT 1',
	'ALTER TABLE logs DETACH PARTITION logs_1',
	'ALTER TABLE logs ATTACH PARTITION logs_2 FOR VALUES FROM (10) TO (20)');
my $rows = sub { return $c->sql('SELECT sum(hashtext(f::text)), count(*) FROM facts f') };
for my $mode ('online', 'read_only')
{
	my $before;

	while_moving($mode, 'move_switch', sub {
		is($c->sqlstate($_), 'SL008', "$mode: $_") for @waits;
		is($c->sqlstate($_), '', "$mode: $_") for (
			'ALTER TABLE facts ADD a int',
			"ALTER TABLE notes ADD u_$mode int",
			q{ALTER TABLE facts ADD b text DEFAULT 'x', ADD CHECK (b <> '')},
			'ALTER TABLE facts DROP CONSTRAINT facts_v_check',
			'ALTER TABLE facts ALTER b SET NOT NULL',
			'CREATE INDEX facts_more ON facts (a)',
			'DROP INDEX facts_plain',
			'ALTER TABLE facts RENAME CONSTRAINT facts_once TO facts_one',
			'ALTER TABLE facts RENAME CONSTRAINT facts_one TO facts_once',
			q{COMMENT ON TABLE facts IS 'facts'},
			'GRANT SELECT ON facts TO public');
		$c->sql('UPDATE facts SET a = at WHERE at % 2 = 0') if $mode eq 'online';
		$before = $rows->();
	});
	is($rows->(), $before, "$mode: all values are the same");
	$c->sql(q{ALTER TABLE facts DROP a, DROP b, ADD CONSTRAINT facts_v_check CHECK (v <> ''); CREATE INDEX facts_plain ON facts (v)});
	while_moving($mode, 'move_remove', sub { is($c->sqlstate($waits[0]), 'SL008', "$mode: behind the switch") });
}
my ($status, undef, $stderr);
while_moving('online', 'move_follow', sub { ($status, undef, $stderr) = $c->psql_err($waits[0]) });
like($stderr, qr/cannot add a column with computed values to table "facts" now.*DETAIL:  A shardlet of map "mv" is being moved: see move \d+ in shardlet.moves.*HINT:  Wait for it, or stop it with CALL shardlet.cancel_move\(\d+\)/s, 'which says what can be done');

# A transaction that began before the move is waited for.
my $early = $c->router->background_psql('app');
my $session = $probe->meanwhile('online', 'move_mark', sub {
	$early->query_safe('BEGIN; ALTER TABLE facts ADD id bigserial, ALTER w TYPE bigint USING w * 100');
});
$c->poll('SELECT phase FROM shardlet.moves WHERE open', 'wait');
$early->query_safe('UPDATE facts SET w = w + 1 WHERE k % 2 = 0');
my $before = $early->query_safe('SELECT sum(hashtext(f::text)), count(*) FROM facts f');
$early->query_safe('COMMIT');
$early->quit;
is($c->sqlstate_of(($c->psql_end($session))[0, 2]), '', 'a move waits for DDL');
is($rows->(), $before, 'and copies what that has made');
is($c->sqlstate($_), '', "without a move: $_") for 'ALTER TABLE facts ALTER w SET DEFAULT 2', 'DROP INDEX facts_unique', 'ALTER TABLE facts DROP CONSTRAINT facts_once';

$c->sql('DROP TABLE facts, logs, notes');
$probe->is_whole('after DDL');

done_testing();
