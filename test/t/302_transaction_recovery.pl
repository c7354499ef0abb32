
# Who finishes what was left prepared, and who must not: names of prepared
# transactions, other routers, clones, other users, and shards that cannot prepare.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);
use TransactionProbe;

# The worker looks when the server starts and not again: what is finished later
# was finished by another session.
my $no_worker = "shardlet.recovery_interval = 1h\n";
my $c = ShardletCluster->new(shards => 3, router_conf => $no_worker);
my $probe = TransactionProbe->new($c);
my $router = $c->router;
my $prepared = 'SELECT shard, state, decision FROM shardlet.prepared_transactions ORDER BY shard, gid';

# How many transactions are prepared on the shards, by themselves.
sub count_prepared
{
	return join ' ', map { $c->shard_sql($_, 'SELECT count(*) FROM pg_prepared_xacts') } 1 .. 3;
}

# The router dies at a point, and does not come back yet.
sub kill_router_at
{
	my ($point, %option) = @_;
	my $t = $probe->begin_at($point, %option);

	$c->kill9($router);
	$probe->end($t);
	return $t;
}

# Kills a shard under a transaction, which goes on.
sub run_with_dead_shard
{
	my ($point, $shard) = @_;
	my $t = $probe->begin_at($point);

	$c->kill9($c->shard($shard));
	$probe->let_go($t);
	return $t;
}

# In doubt, and then decided.
my $t = $probe->begin_at('txn_after_all_prepares');
my $database = $c->sql(q{SELECT oid FROM pg_database WHERE datname = 'app'});
my $user = $c->sql('SELECT current_user::regrole::oid');
my @gids = split /\n/, $c->sql('SELECT gid FROM shardlet.prepared_transactions ORDER BY gid');
my ($start) = $gids[0] =~ /^(shardlet_[0-9a-f]{16}_${database}_\d+_)/;
is("@gids", join(' ', map { "$start${_}_$user" } 1 .. 3), 'names: incarnation, database, transaction, connection, user');
is($c->sql($prepared), "s1|active|\ns2|active|\ns3|active|", 'in doubt');
is($c->sql(q{SELECT count(*) FROM shardlet.prepared_transactions WHERE age BETWEEN '0' AND '1 minute' AND user_name = current_user}), 3, 'age and user');
is($c->sql('SELECT shardlet.recover()'), 0, 'what is in doubt is left alone');
$probe->let_go($t);
is($t->{told}, '', 'and can be committed');
is($c->sql($prepared), '', 'nothing is left');
$probe->judge('all', $t);

# What is decided and not done: recover() does it.
for my $case ([ txn_after_all_prepares => 'commit', '', 'all' ], [ txn_after_some_prepares => 'rollback', 'SL004', 'none' ])
{
	my ($point, $decision, $told, $outcome) = @$case;
	my $shard = $decision eq 'commit' ? 2 : 1;
	$t = $probe->begin_at($point);

	# To be rolled back, it must be prepared on one that dies and fail on another.
	$c->kill9($c->shard(2)) if $decision eq 'rollback';
	$c->kill9($c->shard($shard));
	$probe->let_go($t);
	is($t->{told}, $told, "$decision: told");
	my ($status, $stdout, $stderr) = $c->psql_err($prepared);
	is("$status $stdout", '0 ', "$decision: the view without the dead shard");
	like($stderr, qr/WARNING:  SL004: could not reach shard "s$shard"/, "$decision: warns");
	is($c->sql('SELECT shardlet.recover()'), 0, "$decision: cannot be done yet");
	$c->start($c->shard(2)) if $decision eq 'rollback';
	$c->start($c->shard($shard));
	is($c->sql($prepared), "s$shard|waiting|$decision", "$decision: waits");
	is($c->sql('SELECT shardlet.recover()'), 1, "$decision: recover()");
	is($c->sql($prepared), '', "$decision: nothing is left");
	$probe->settle($decision);
	$probe->judge($outcome, $t);
}

# No session overlooks a decided commit.  The worker does not look, so it is the first
# reader that finishes it; until the shard is back it is an error, not old rows.
for my $read (
	q{SELECT v FROM shardlet.query_key('m', 'SELECT v FROM acct WHERE id = %d', NULL, %d::bigint) AS q(v int)},
	q{SELECT v FROM shardlet.query('m', 'SELECT v FROM acct WHERE id = %d') AS q(v int)},
	q{SELECT rows * %3$d FROM shardlet.execute('m', 'UPDATE acct SET v = v WHERE id = %1$d AND v = %3$d') WHERE shard = 's2'})
{
	$t = run_with_dead_shard('txn_after_all_prepares', 2);
	my $sql = sprintf $read, $t->{keys}{s2}, $t->{keys}{s2}, $t->{value};

	is($t->{told}, '', 'decided while a shard is dead');
	like($t->{stderr}, qr/WARNING:  .*shard "s2" has not confirmed it yet/, 'with a warning');
	is($c->sqlstate($sql), 'SL004', 'nobody reads there meanwhile');
	$c->start($c->shard(2));
	is(count_prepared(), '0 1 0', 'the shard is back, and nobody has looked');
	is($c->sql($sql), $t->{value}, 'the first who looks sees it');
	$probe->settle('the first reader');
	$probe->judge('all', $t);
}

# The same where only the connection of the one who commits is lost, and the
# reader's is good and has been used before.
$t = $probe->begin_at('txn_after_all_prepares');
my ($ready, $go) = map { PostgreSQL::Test::Utils::tempdir . "/$_" } qw(ready go);
my $read = "SELECT v FROM shardlet.query_key('m', 'SELECT v FROM acct WHERE id = $t->{keys}{s2}', NULL, $t->{keys}{s2}::bigint) AS q(v int);";
my $reader = $c->psql_begin("$read\n\\! touch $ready; while [ ! -e $go ]; do sleep 0.05; done\n$read");
sleep 0.05 while !-e $ready;
$c->shard_sql(2, q{SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query LIKE 'PREPARE TRANSACTION%'});
$probe->let_go($t);
is(count_prepared(), '0 1 0', 'not finished on one shard');
append_to_file($go, '');
is(($c->psql_end($reader))[1], "0\n$t->{value}", 'a session that was there before sees it');
$probe->settle('the session before');
$probe->judge('all', $t);

# Names that are not ours, however similar.
$c->shard_sql(1, q{BEGIN; UPDATE acct SET v = -1 WHERE id = (SELECT max(id) FROM acct); PREPARE TRANSACTION 'shardlet_0123456789abcdef_1_2_3'});
$c->shard_sql(1, q{BEGIN; SELECT 1 FROM acct LIMIT 1 FOR UPDATE; PREPARE TRANSACTION 'shardlet_''{,}"'});
is($c->sql($prepared), "s1|foreign|\ns1|foreign|", 'foreign names');
is($c->sql('SELECT shardlet.recover()'), 0, 'are not touched');
$c->shard_sql(1, q{ROLLBACK PREPARED 'shardlet_0123456789abcdef_1_2_3'});
$c->shard_sql(1, q{ROLLBACK PREPARED 'shardlet_''{,}"'});

# Names that could be ours, of ids that this router has not given: no statement fails
# because of them, and no true one is left behind.
my @forged = map { my $id = $_; $start =~ s/\d+_$/${id}_1_$user/r } (0, 2, 99999999, '18446744073709551615', '4294967299');
my @odd = map { my $id = $_; $start =~ s/\d+_$/${id}_1_$user/r } (' 3', '99999999999999999999999');
$c->shard_sql(1, q{CREATE ROLE forger LOGIN; CREATE TABLE forged (v int); GRANT ALL ON forged TO forger});
$c->shard_sql(1, "SET ROLE forger; BEGIN; INSERT INTO forged VALUES (1); PREPARE TRANSACTION '$_'") for @forged, @odd;
$t = kill_router_at('txn_after_commit_record');
$c->start($router);
is($c->sqlstate(q{SELECT * FROM shardlet.query('m', 'SELECT 1') AS q(a int)}), '', 'statements go on');
$probe->judge('all', $t);
is($c->sql('SELECT shardlet.recover()'), 0, 'forged names are not touched');
is($c->sql('SELECT state, count(*) FROM shardlet.prepared_transactions GROUP BY 1 ORDER BY 1'), "foreign|2\nunknown|5", 'but shown');
is($c->shard_sql(1, 'SELECT count(*) FROM pg_prepared_xacts'), '7', 'as they are');
$c->shard_sql(1, "ROLLBACK PREPARED '$_'") for @forged, @odd;
$c->shard_sql(1, 'DROP TABLE forged');

# Two other routers that had the same shards: a database of this server, and a server.
my $router2 = PostgreSQL::Test::Cluster->new('router2');
$router2->init;
$router2->append_conf('postgresql.conf', "shared_preload_libraries = 'shardlet'\nmax_prepared_transactions = 10\n$no_worker");
$router2->start;
$_->safe_psql('postgres', 'CREATE DATABASE app2') for $router, $router2;

sub each_other_router
{
	my ($sql, $expected, $name) = @_;
	is($router->safe_psql('app2', $sql), $expected, "$name, other database") if $router->{_pid};
	is($router2->safe_psql('app2', $sql), $expected, "$name, other server");
	return;
}

for my $node ($router, $router2)
{
	$node->safe_psql('app2', 'CREATE EXTENSION shardlet');
	$node->safe_psql('app2', "SELECT shardlet.add_shard('s$_', '" . $c->conninfo($_) . "', takeover => true)") for 1 .. 3;
}
$c->sql('SELECT shardlet.take_over()');
my $others = "s1|foreign|\ns2|foreign|\ns3|foreign|";
$t = $probe->begin_at('txn_after_all_prepares');
each_other_router($prepared, $others, 'in doubt');
each_other_router('SELECT shardlet.recover()', 0, 'in doubt');
$probe->let_go($t);
is($t->{told}, '', 'committed in their presence');
$probe->judge('all', $t);

for my $case ([ txn_before_commit_record => 'none' ], [ txn_after_commit_record => 'all' ])
{
	my ($point, $outcome) = @$case;
	$t = kill_router_at($point);
	each_other_router('SELECT shardlet.recover()', 0, "$point, dead");
	is(count_prepared(), '1 1 1', "$point: left alone by others");
	$router2->restart;
	sleep 1;
	is(count_prepared(), '1 1 1', "$point: and by their workers");
	$c->start($router);
	$probe->settle($point);
	$probe->judge($outcome, $t);
}

# A clone has the log of the original and finds its commit there.  It must not
# use it: the original may go on to another decision.
$t = kill_router_at('txn_after_commit_record');
my $copy = PostgreSQL::Test::Cluster->new('copy');
mkdir $copy->basedir;
system_or_bail('cp', '-a', $router->data_dir, $copy->data_dir);
$copy->append_conf('postgresql.conf', 'port = ' . $copy->port);
$copy->start;
is($copy->safe_psql('app', $prepared), $others, 'a clone does not know them');
is($copy->safe_psql('app', 'SELECT shardlet.recover()'), 0, 'and does not touch them');
is(count_prepared(), '1 1 1', 'all are there');
$copy->stop;
$c->start($router);
$probe->settle('a clone');
$probe->judge('all', $t);

# A restart is no clone.
my $incarnation = slurp_file($router->data_dir . '/shardlet_incarnation');
$router->restart;
is(slurp_file($router->data_dir . '/shardlet_incarnation'), $incarnation, 'the same after a restart');
isnt(slurp_file($copy->data_dir . '/shardlet_incarnation'), $incarnation, 'another one in the clone');

# Prepared by a user who is no superuser, and finished as that user.  The router's
# superuser cannot log in there.
$c->sql(q{CREATE ROLE app LOGIN;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardlet TO app;
	GRANT ALL ON local_acct TO app;
	CREATE USER MAPPING FOR app SERVER shardlet_tables OPTIONS (user 'app', password 'app-pw')});
for my $shard (1 .. 3)
{
	$c->shard_sql($shard, q{CREATE ROLE app LOGIN PASSWORD 'app-pw'; GRANT ALL ON acct TO app});
}

# What a shard does with connections of others than app.
sub let_others
{
	my ($method) = @_;
	for my $node (map { $c->shard($_) } 1 .. 3)
	{
		unlink $node->data_dir . '/pg_hba.conf';
		$node->append_conf('pg_hba.conf', "local all all trust\nhost all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 $method");
		$node->reload;
	}
	return;
}
for my $case ([ txn_before_commit_record => 'none' ], [ txn_after_commit_record => 'all' ])
{
	my ($point, $outcome) = @$case;
	let_others('reject');
	$t = kill_router_at($point, set => 'SET ROLE app;');
	is($c->shard_sql(1, 'SELECT owner FROM pg_prepared_xacts'), 'app', "$point: prepared as app");
	$c->start($router);
	$probe->settle("$point, app");
	let_others('trust');
	$probe->judge($outcome, $t);
}

# Two users in one transaction have two connections to a shard, and two prepared
# transactions there.
my ($mine, $theirs) = splice @{ $probe->{keys}{s1} }, 0, 2;
my $set = q{SELECT v FROM shardlet.query_key('m', 'UPDATE acct SET v = %2$d WHERE id = %1$d RETURNING v', NULL, %1$d::bigint) AS q(v int);};
my $both = 'BEGIN;' . sprintf($set, $mine, 1) . 'SET LOCAL ROLE app;' . sprintf($set, $theirs, 1) . 'COMMIT;';
is($c->sqlstate(q{SET shardlet.fault = 'txn_after_commit_record:kill';} . $both), 'lost', 'two users, and a crash');
is($c->shard_sql(1, q{SELECT string_agg(owner::text, ',' ORDER BY owner = 'app') LIKE '%,app' FROM pg_prepared_xacts}), 't', 'one for each');
$c->start($router);
$probe->settle('two users');
is($c->shard_sql(1, "SELECT sum(v) FROM acct WHERE id IN ($mine, $theirs)"), 2, 'both are finished');
is($c->sqlstate($both), '', 'and without a crash');
$c->shard_sql(1, "UPDATE acct SET v = 0 WHERE id IN ($mine, $theirs)");

# A shard that cannot prepare.  Everything is rolled back, also where it could be
# prepared, and the error says what to do.
sub test_refusal
{
	my ($name, $make, $undo, $sqlstate, $hint) = @_;

	$make->();
	my $t = $probe->run(name => $name);
	is($t->{told}, $sqlstate, "$name: refused");
	like($t->{stderr}, $hint, "$name: hint");
	$undo->();
	$probe->settle($name);
	$probe->judge('none', $t);
	return $t;
}

sub set_slots
{
	my ($count) = @_;
	$c->shard(2)->append_conf('postgresql.conf', "max_prepared_transactions = $count");
	$c->shard(2)->restart;
	return;
}

test_refusal('no slots', sub { set_slots(0) }, sub { set_slots(1) },
	'55000', qr/HINT:  .*max_prepared_transactions > 0/);
test_refusal('all slots used',
	sub { $c->shard_sql(2, q{BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'mine'}) },
	sub { $c->shard_sql(2, q{ROLLBACK PREPARED 'mine'}) },
	'53200', qr/HINT:  Raise max_prepared_transactions on that shard/);
$c->shard_sql(2, q{CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_notify(''a'', ''b''); RETURN NULL; END'});
$t = test_refusal('NOTIFY in a trigger',
	sub { $c->shard_sql(2, 'CREATE TRIGGER tell AFTER UPDATE ON acct FOR EACH ROW EXECUTE FUNCTION tell()') },
	sub { $c->shard_sql(2, 'DROP TRIGGER tell ON acct') },
	'0A000', qr/HINT:  .*cannot use NOTIFY.*trigger/);

# PREPARE TRANSACTION by the user.
my $write = q{SELECT v FROM shardlet.query_key('m', 'UPDATE acct SET v = v WHERE id = %1$d RETURNING v', NULL, %1$d::bigint) AS q(v int);};
my @keys = @{ $t->{keys} }{qw(s1 s2)};
my $one = sprintf $write, $keys[0];
my $two = $one . sprintf $write, $keys[1];
is($c->sqlstate("BEGIN; $one PREPARE TRANSACTION 'mine'"), '0A000', 'PREPARE TRANSACTION after using a shard');
is($c->sqlstate(q{BEGIN; INSERT INTO local_acct VALUES (-1, -1); PREPARE TRANSACTION 'mine'; COMMIT PREPARED 'mine'}), '', 'without shards');
is($c->sqlstate("$one BEGIN; INSERT INTO local_acct VALUES (-2, -2); PREPARE TRANSACTION 'mine'; ROLLBACK PREPARED 'mine'; $two"), '', 'shards before and after');

# Not wanted at all.
my $off = 'SET shardlet.multi_shard_transactions = off;';
$t = $probe->run(set => $off, name => 'multi_shard_transactions = off');
is($t->{told}, 'SL005', $t->{name});
$probe->settle($t->{name});
$probe->judge('none', $t);
is($c->sqlstate("$off BEGIN; $one $one COMMIT; $two"), '', 'one shard at a time');
is($c->sqlstate("$off SELECT * FROM shardlet.execute('m', 'UPDATE acct SET v = v')"), 'SL005', 'a statement on all shards');

$c->destroy;
done_testing();
