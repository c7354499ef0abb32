
# restore_point(): router and shards are recovered to it from base backups that were taken under load, and the
# accounts of a bank still have the same sum.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $conf = "log_statement = none\nmax_wal_senders = 8\nwal_level = logical\narchive_mode = on\n";
my $c = ShardletCluster->new(shards => 2, router_conf => $conf . "shardlet.recovery_interval = 1h\n", shard_conf => $conf);
my %nodes = (router => $c->router, s1 => $c->shard(1), s2 => $c->shard(2));
my $accounts = 40;

for my $node (values %nodes)
{
	my $archive = $node->archive_dir;
	$node->append_conf('postgresql.conf', "archive_command = 'cp %p $archive/%f'");
	$node->reload;
}
$c->sql(qq{
	SELECT shardlet.create_map('m', shardlets => 8);
	CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL);
	SELECT shardlet.distribute('account', 'm', 'id');
	INSERT INTO account SELECT i, 100 FROM generate_series(1, $accounts) i;
	CREATE TABLE done (n bigint)});
my $sum = $accounts * 100;
$_->backup('base') for values %nodes;

# Transfers between accounts, most of them on two shards; the router writes, too.
my $script = PostgreSQL::Test::Utils::tempdir() . '/transfer.sql';
append_to_file($script, <<"END");
\\set a random(1, $accounts / 2)
\\set b random($accounts / 2 + 1, $accounts)
BEGIN;
UPDATE account SET balance = balance - 1 WHERE id = :a;
UPDATE account SET balance = balance + 1 WHERE id = :b;
INSERT INTO done VALUES (1);
COMMIT;
END
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-T', 6, '-f', $script, $c->router->connstr('app') ], '>', \my $out, '2>', \my $err);
sleep 2;
my $points = $c->sql(q{SELECT count(*), count(shard), bool_and(lsn > '0/0') FROM shardlet.restore_point('together')});
is($points, '3|2|t', 'a point on router and shards');
sleep 1;
$load->finish;
is($load->result(0), 0, 'transfers go on') or diag($err);
cmp_ok($c->sql('SELECT count(*) FROM done'), '>', 100, 'there were many');
for my $node (values %nodes)
{
	my $last = $node->safe_psql('app', 'SELECT pg_walfile_name(pg_switch_wal())');
	ok($node->poll_query_until('app', "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver"), $node->name . ' is archived');
}

# In place of the servers that were there, with their ports: the router finds the shards.
my %restored;
$_->stop('fast') for values %nodes;
for my $name (sort keys %nodes)
{
	my $node = $nodes{$name};
	my $copy = $restored{$name} = PostgreSQL::Test::Cluster->new("restored_$name", port => $node->port);

	$copy->init_from_backup($node, 'base', has_restoring => 1, standby => 0);
	$copy->append_conf('postgresql.conf', "recovery_target_name = 'together'\nrecovery_target_action = promote\narchive_mode = off\n");
	$copy->start;
	ok($copy->poll_query_until('app', 'SELECT NOT pg_is_in_recovery()'), "$name is recovered");
	like(slurp_file($copy->logfile), qr/recovery stopping at restore point "together"/, 'to the point');
}
my $router = $restored{router};

# The restored router is another instance: what the former one left prepared is decided by its commit log.
my %done = ('COMMIT' => 0, 'ROLLBACK' => 0);
for my $name ('s1', 's2')
{
	for my $gid (split /\n/, $restored{$name}->safe_psql('app', q{SELECT gid FROM pg_prepared_xacts}))
	{
		my ($xid) = $gid =~ /^shardlet_[0-9a-f]+_\d+_(\d+)_/;
		my $given = $router->safe_psql('app', "SELECT '$xid'::xid8 < pg_snapshot_xmax(pg_current_snapshot())") eq 't';
		my $command = $given && $router->safe_psql('app', "SELECT pg_xact_status('$xid')") eq 'committed' ? 'COMMIT' : 'ROLLBACK';

		$restored{$name}->safe_psql('app', "$command PREPARED '$gid'");
		$done{$command}++;
	}
}
note("prepared transactions: $done{COMMIT} committed, $done{ROLLBACK} rolled back");
is($router->safe_psql('app', 'SELECT count(*), sum(balance) FROM account'), "$accounts|$sum", 'no transaction is half there');
is($router->safe_psql('app', 'SELECT sum(100 - balance) FROM account WHERE id <= ' . $accounts / 2),
	$router->safe_psql('app', 'SELECT count(*) FROM done'), 'and the router has those that the shards have');
is($router->safe_psql('app', 'SELECT count(*) FROM shardlet.prepared_transactions'), '0', 'nothing is left prepared');
$_->stop('fast') for values %restored;

done_testing();
