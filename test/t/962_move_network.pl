
# Every command of a move is lost on its way to the shard, and every answer on its
# way back: the move is finished or undone by itself, and nothing is left behind.

use strict;
use warnings;

use MoveProbe;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, proxy => 1, router_conf => "shardlet.recovery_interval = 300ms
shardlet.connect_timeout = 10s
log_statement = none
", shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $probe = MoveProbe->new($c, shards => 2);

# Some are of one way of moving only.
my @all = (
	'guard_change', 'pg_table_size', 'REPEATABLE READ', 'SET TRANSACTION SNAPSHOT', 'session_replication_role', 'COPY (', 'COPY public', 'COMMIT',
	'coalesce(pg_catalog.sum(', 'PREPARE TRANSACTION', 'COMMIT PREPARED', 'pg_partition_tree', 'DELETE FROM');
my %commands = (
	online => [
		@all, 'CREATE TABLE IF NOT EXISTS', 'CREATE PUBLICATION', 'CREATE_REPLICATION_SLOT', 'CREATE SUBSCRIPTION', 'ENABLE',
		'INSERT INTO shardlet', 'SELECT EXISTS', 'guard_lock', 'DISABLE', 'slot_name = NONE', 'DROP SUBSCRIPTION', 'pg_terminate_backend',
		'pg_drop_replication_slot', 'DROP PUBLICATION', 'DROP TABLE' ],
	read_only => [ @all, 'virtualtransaction' ]);

# What the server says when a command is done.
my @answers = (
	'CREATE TABLE', 'CREATE PUBLICATION', 'CREATE_REPLICATION_SLOT', 'COPY ', 'COMMIT', 'CREATE SUBSCRIPTION', 'ALTER SUBSCRIPTION', 'INSERT ',
	'PREPARE TRANSACTION', 'COMMIT PREPARED', 'DROP SUBSCRIPTION', 'DROP PUBLICATION', 'DROP TABLE');

sub lose
{
	my ($mode, $side, $text, %condition) = @_;

	$c->proxy($_)->rule(cut => $side, text => $text, %condition) for 1, 2;
	$c->psql_end($probe->start_move($mode, ''));
	$probe->settle;
	my $struck = grep { { $c->proxy($_)->counts }->{struck} } 1, 2;
	$c->proxy($_)->normal for 1, 2;
	$probe->is_whole("$mode, $side, $text");
	cmp_ok($struck, '>', 0, 'which was lost');
	return;
}

for my $mode ('online', 'read_only')
{
	lose($mode, 'client', $_) for @{ $commands{$mode} };
	lose($mode, 'server', $_, type => 'C') for grep { $mode eq 'online' || /^(COPY|COMMIT|PREPARE)/ } @answers;
	# A function deletes, and its answer begins with its name as a column.
	lose($mode, 'server', 'run_as_owner', type => 'T');
}

# A shard that keeps nothing is emptied at once.
$probe->make_one;
for my $mode ('online', 'read_only')
{
	lose($mode, 'client', $_) for 'pg_replication_slots', 'IS NOT TRUE', 'lock_timeout', 'TRUNCATE ';
	lose($mode, 'server', 'run_as_owner', type => 'T');
}

done_testing();
