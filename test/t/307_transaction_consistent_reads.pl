
# One snapshot over all shards and the router: transfers at full speed while
# others add up; and what a shard that hangs, or a commit that waits for a
# standby, must not hold up.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);
use WireClient;

my $c = ShardletCluster->new(shards => 3, router_conf => "restart_after_crash = on\n");
my $router = $c->router;
my $database = $router->connstr('app');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $seconds = $ENV{SL_LONG} ? 30 : 4;

# Keys 1 to 30 of "acct" and "pair", and one row for each side of "ledger" (a table
# of the router) and "rates" (a reference table).  "pair" has no rows on s3.
$c->sql(q{
	SELECT shardlet.create_map('m', 'list', '{int}', via => '$1 % 3');
	SELECT shardlet.assign_key('m', 's' || (g + 1), g) FROM generate_series(0, 2) g;
	SELECT shardlet.create_map('two', 'list', '{int}', shards => '{s1,s2}', via => '$1 % 2');
	SELECT shardlet.assign_key('two', 's' || (g + 1), g) FROM generate_series(0, 1) g;
	CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL);
	CREATE TABLE pair (id int PRIMARY KEY, bal int NOT NULL);
	CREATE TABLE ledger (id int PRIMARY KEY, bal int NOT NULL);
	CREATE TABLE rates (id int PRIMARY KEY, bal int NOT NULL);
	SELECT shardlet.distribute('acct', 'm', 'id');
	SELECT shardlet.distribute('pair', 'two', 'id');
	SELECT shardlet.make_reference('rates');
	INSERT INTO acct SELECT g, 100 FROM generate_series(1, 30) g;
	INSERT INTO pair SELECT g, 100 FROM generate_series(1, 30) g;
	INSERT INTO ledger VALUES (1, 1000);
	INSERT INTO rates VALUES (1, 1000);
});
is($c->sql('SHOW shardlet.consistent_reads'), 'on', 'consistent reads are the default');

# Scripts ----------------------------------------------------------------------------

sub script
{
	my ($name, @lines) = @_;
	append_to_file("$dir/$name", join "\n", @lines, '');
	return "$dir/$name";
}

# A reader fails as soon as a sum is wrong.
sub expect
{
	my ($sql, $right) = @_;
	return ("$sql \\gset", "SELECT 1 / (CASE WHEN :found = $right THEN 1 ELSE 0 END);");
}

# Between accounts of two shards, always the lower key first.
my $transfer = script('transfer.sql', '\set a random(1, 15)', '\set b random(16, 30)', 'BEGIN;',
	'UPDATE acct SET bal = bal - 1 WHERE id = :a;', 'UPDATE acct SET bal = bal + 1 WHERE id = :b;', 'COMMIT;');

# From an account to the router's table, or to the reference table.
my $mixed = script('mixed.sql', '\set a random(1, 30)', 'BEGIN;', 'UPDATE acct SET bal = bal - 1 WHERE id = :a;',
	'UPDATE ledger SET bal = bal + 1;', 'COMMIT;', '\set a random(1, 30)', 'BEGIN;', 'UPDATE acct SET bal = bal - 1 WHERE id = :a;',
	'UPDATE rates SET bal = bal + 1;', 'COMMIT;');

my $sum = script('sum.sql', expect('SELECT sum(bal) AS found FROM acct', 3000));
my $rows = script('rows.sql', expect('SELECT sum(bal) AS found FROM (SELECT bal FROM acct OFFSET 0) s', 3000));
my $twice = script('twice.sql', expect('SELECT (SELECT sum(bal) FROM acct WHERE id <= 15) + (SELECT sum(bal) FROM acct WHERE id > 15) AS found', 3000));
my $repeatable = script('repeatable.sql', 'BEGIN ISOLATION LEVEL REPEATABLE READ;',
	expect('SELECT sum(bal) AS found FROM acct', 3000), 'SELECT sum(bal) AS first FROM acct WHERE id <= 15 \gset',
	expect('SELECT :first + sum(bal) AS found FROM acct WHERE id > 15', 3000), 'COMMIT;');
my $default = script('default.sql', expect('SELECT sum(bal) AS found FROM acct', 3000), 'BEGIN;',
	'SELECT sum(bal) AS first FROM acct WHERE id <= 15 \gset',
	expect('SELECT :first + sum(bal) AS found FROM acct WHERE id > 15', 3000), 'COMMIT;');
my $all = '(SELECT sum(bal) FROM ledger) + (SELECT sum(bal) FROM rates) + (SELECT sum(bal) FROM acct)';
my $together = script('together.sql', expect("SELECT $all AS found", 5000),
	'BEGIN ISOLATION LEVEL REPEATABLE READ;', 'SELECT sum(bal) AS first FROM ledger \gset',
	expect('SELECT :first + (SELECT sum(bal) FROM rates) + (SELECT sum(bal) FROM acct) AS found', 5000), 'COMMIT;');
my $one = script('one.sql', expect('SELECT (SELECT bal FROM ledger) + (SELECT sum(bal) FROM acct WHERE id % 3 = 1) + (SELECT bal FROM rates) + (SELECT sum(bal) FROM acct WHERE id % 3 <> 1) AS found', 5000));

sub total
{
	return $c->sql("SELECT $all");
}

# Reads while others write; retries what a serialization failure ended.
sub reads
{
	my ($reader, $writer, $name, $options) = @_;
	local $ENV{PGOPTIONS} = $options // '';
	my $limit = '--max-tries=1000';
	my ($stdout, $stderr) = run_command([ 'sh', '-c',
		"pgbench -n -c 4 $limit -T $seconds -f $writer -d '$database' >$dir/writes 2>&1 & "
		  . "pgbench -n -c 4 $limit -T $seconds -f $reader -d '$database' 2>&1; wait" ]);
	my ($count) = $stdout =~ /transactions actually processed: (\d+)/;
	my ($written) = slurp_file("$dir/writes") =~ /transactions actually processed: (\d+)/;

	unlike($stdout, qr/division by zero|aborted in command/, "$name: every sum is right");
	cmp_ok($count // 0, '>', 10, "$name: there were some");
	cmp_ok($written // 0, '>', 10, "$name: and there were transfers");
	note("$name: $count reads, $written transfers");
	return;
}

reads($sum, $transfer, 'aggregate');
reads($rows, $transfer, 'rows');
reads($twice, $transfer, 'two scans in a statement');
reads($repeatable, $transfer, 'REPEATABLE READ');
reads($default, $transfer, 'REPEATABLE READ by default', '-c default_transaction_isolation=repeatable\ read');
is(total(), 5000, 'nothing was lost');
reads($together, $mixed, 'with tables of the router');
reads($one, $mixed, 'with reference tables');
is(total(), 5000, 'nothing was lost there either');

# Exported snapshots ------------------------------------------------------------------

# A dump while transfers go on.  Tables of shards are dumped if their server is named, and
# pg_dump does not let several processes do that.
my ($dumped) = run_command([ 'sh', '-c',
	"pgbench -n -c 4 --max-tries=1000 -T $seconds -f $mixed -d '$database' >$dir/writes 2>&1 & "
	  . "pg_dump --data-only --include-foreign-data=shardlet_tables -t acct -t ledger -t rates -d '$database' 2>&1; echo status \$?; "
	  . "pg_dump -j 2 -Fd -f $dir/dump -d '$database' 2>&1; echo parallel status \$?; wait" ]);
like($dumped, qr/^status 0$/m, 'pg_dump while others write');
like($dumped, qr/^parallel status 0$/m, 'pg_dump -j while others write');
my $dumped_sum = 0;
$dumped_sum += $_ for map { /^\d+\t(-?\d+)$/ ? $1 : () } split /\n/, $dumped;
is($dumped_sum, 5000, 'all of a dump is one snapshot');

my $exporter = WireClient->new($router, 'app');
my $importer = WireClient->new($router, 'app');

sub import_from
{
	my ($begin) = @_;
	my ($name, @results);

	$exporter->simple($begin);
	$name = ($exporter->simple('SELECT pg_export_snapshot()'))[0]{rows}[0][0];
	$c->sql('BEGIN; UPDATE acct SET bal = bal - 5 WHERE id IN (1, 2, 3); UPDATE ledger SET bal = bal + 15; COMMIT');
	$importer->simple('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$importer->simple("SET TRANSACTION SNAPSHOT '$name'");
	push @results, ($importer->simple($_))[0] for 'SELECT sum(bal) FROM ledger', 'SELECT sum(bal) FROM acct';
	$importer->simple('ROLLBACK');
	$exporter->simple('ROLLBACK');
	return map { $_->{error} ? $_->{error}{C} : $_->{rows}[0][0] } @results;
}

my $ledger = $c->sql('SELECT sum(bal) FROM ledger');
my $acct = $c->sql('SELECT sum(bal) FROM acct');
is(join(' ', import_from('BEGIN ISOLATION LEVEL REPEATABLE READ')), "$ledger $acct", 'an exported snapshot has those of the shards');
is(join(' ', import_from('BEGIN')), ($ledger + 15) . ' 55000', 'one of READ COMMITTED has not, and that is said');

# Tables that change ------------------------------------------------------------------

$c->shard_sql($_, 'CREATE TABLE changing (a int, b int); INSERT INTO changing VALUES (1, 2)') for 1 .. 3;
my $old = q{SELECT sum(b) FROM shardlet.query('m', 'SELECT b FROM changing') AS q(b bigint)};
is(($exporter->simple($old))[0]{rows}[0][0], 6, 'a statement is prepared on the shards') for 1 .. 2;
$c->shard_sql($_, 'ALTER TABLE changing ALTER b TYPE bigint') for 1 .. 3;
my ($again) = $exporter->simple($old);
is($again->{error} ? $again->{error}{M} : $again->{rows}[0][0], 6, 'it is prepared again when a table has changed');
$exporter->close;
$importer->close;

# A shard that hangs ------------------------------------------------------------------

sub processes
{
	my ($node) = @_;
	return ($node->{_pid}, ShardletCluster::_children($node->{_pid}));
}

my $gates = 0;

# A transfer over these accounts that waits at a point; returns it and how to let it go.
sub begin_transfer
{
	my ($table, $from, $to, $point) = @_;
	my $gate = "$dir/gate" . $gates++;
	my $mark = $c->log_mark($router);
	my $session = $c->psql_begin(($point ? "SET shardlet.fault = '$point:wait=$gate';" : '')
		  . "BEGIN; UPDATE $table SET bal = bal - 1 WHERE id = $from; UPDATE $table SET bal = bal + 1 WHERE id = $to; COMMIT;");

	$router->wait_for_log(qr/fault \Q$point: wait=$gate\E/, $mark) if $point;
	return ($session, sub { append_to_file($gate, 'open') });
}

# What does not need s3 goes on, while something is up with it.
sub goes_on
{
	my ($name) = @_;
	my $limit = 'SET statement_timeout = 4000;';

	is($c->sql("$limit SELECT sum(bal) FROM pair"), 3000, "$name: reads of other shards go on");
	is($c->sqlstate("$limit BEGIN; UPDATE pair SET bal = bal - 1 WHERE id = 1; UPDATE pair SET bal = bal + 1 WHERE id = 2; COMMIT"), '',
		"$name: so do commits over other shards");
	is($c->sql("$limit BEGIN ISOLATION LEVEL READ COMMITTED; SELECT sum(bal) + (SELECT 0 FROM ledger) FROM pair; COMMIT"), 3000,
		"$name: also with tables of the router");
	return;
}

# While it commits: s1, s2 and s3 are prepared, the router has committed.
$c->sql('UPDATE pair SET bal = 100');
my ($session, $open) = begin_transfer('acct', 2, 1, 'txn_after_commit_record');
my @stopped = processes($c->shard('s3'));
kill 'STOP', @stopped;
$open->();
sleep 0.5;
goes_on('COMMIT PREPARED hangs');
is($c->sqlstate('SET statement_timeout = 700; SELECT sum(bal) FROM acct'), '57014', 'who needs the shard waits, and can be cancelled');
kill 'CONT', @stopped;
is(($c->psql_end($session))[0], 0, 'it is committed in the end');
is(total(), 5000, 'and the sum is right');

# While a snapshot is taken.
@stopped = processes($c->shard('s3'));
kill 'STOP', @stopped;
my $reader = $c->psql_begin('SET shardlet.silence_timeout = 0; SELECT sum(bal) FROM acct');
sleep 0.5;
goes_on('a snapshot hangs');
is($c->sqlstate('SET statement_timeout = 700; SELECT sum(bal) FROM acct'), '57014', 'a snapshot that hangs can be cancelled');
kill 'CONT', @stopped;
my $right = 5000 - $c->sql('SELECT (SELECT sum(bal) FROM ledger) + (SELECT sum(bal) FROM rates)');
my ($status, $found, $stderr) = $c->psql_end($reader);
ok($status == 0 ? $found == $right : $stderr =~ /SL004/, 'it is answered in the end, or the shard is named');
is($c->sql('SELECT sum(bal) FROM acct'), $right, 'the sum is right');

# A standby that is lost --------------------------------------------------------------

$router->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
$router->reload;
ok($c->poll("SELECT current_setting('synchronous_standby_names') = 'nobody'"), 'the router waits for a standby');
my $acct_before = $right;
my $writer = $c->psql_begin('BEGIN; UPDATE acct SET bal = bal - 1 WHERE id = 1; UPDATE acct SET bal = bal - 1 WHERE id = 2; COMMIT;');
ok($c->poll("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"), 'a commit waits for it');
for my $sql ('SELECT sum(bal) FROM acct', 'SELECT sum(bal) + (SELECT 0 FROM ledger) FROM acct',
	'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(bal) FROM acct; COMMIT')
{
	is($c->sql("SET statement_timeout = 4000; $sql"), $acct_before, "reads go on, and do not see it: $sql");
}
$router->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$router->reload;
is(($c->psql_end($writer))[0], 0, 'it is committed when no session waits for the standby any more');
is($c->sql('SELECT sum(bal) FROM acct'), $acct_before - 2, 'and then it is seen');

$c->destroy;
done_testing();
