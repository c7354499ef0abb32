
# Whatever dies in the middle of a move, it is finished or undone by itself: no row
# is missing or twice, and nothing is left behind.  A few of the windows; all of
# them are in 960_move_crash_all, and all commands that can be lost in 962_move_network.

use strict;
use warnings;

use MoveProbe;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = ShardletCluster->new(shards => 3, proxy => 1, router_conf => "shardlet.recovery_interval = 500ms
shardlet.connect_timeout = 10s
", shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $router = $c->router;
my $probe = MoveProbe->new($c);
my $folder = PostgreSQL::Test::Utils::tempdir;

# The router, with all of its processes.
for my $case (
	(map { ['read_only', $_] } 'move_mark_done', 'move_copy_commit', 'move_switch', 'move_switch_done', 'move_remove'),
	(map { ['online', $_] } 'move_copy_slot', 'move_copy_subscribe', 'move_copy_compare', 'move_switch_lock', 'move_switch_marker', 'move_detach'))
{
	my ($mode, $point) = @$case;
	my ($status, undef, $stderr) = $c->psql_end($probe->start_move($mode, "$point:stop"));
	is($c->sqlstate_of($status, $stderr), 'lost', "$point: the router dies");
	$c->start($router);
	$probe->is_whole("$point: finished by itself");
	is($probe->owner, $probe->{to}, "$point: at its new place");
}

# Another router takes its place, a standby or a restored copy: it finds what was made.
for my $phase ('copy', 'switch', 'detach')
{
	my $point = $phase eq 'copy' ? 'move_copy_compare' : "move_$phase";
	my $session = $probe->start_move('online', "$point:wait=$folder/never");

	$c->poll("SELECT phase FROM shardlet.moves WHERE open", $phase);
	$c->shard($probe->{to})->poll_query_until('app', 'SELECT count(*) = 1 FROM pg_subscription');
	$c->stop_immediate($router);
	$c->psql_end($session);
	unlink $router->data_dir . '/shardlet_incarnation' or die "no incarnation: $!";
	$c->start($router);
	$probe->is_whole("$point: finished by another router");
	is($probe->owner, $probe->{to}, "$point: at its new place");
}

# A shard dies, and comes back.
my $number = 0;
for my $case (['move_copy', 'from', 'read_only'], ['move_switch', 'to', 'offline'], ['move_remove', 'from', 'read_only'])
{
	my ($point, $side, $mode) = @$case;
	my $file = "$folder/go" . $number++;
	my $session = $probe->start_move($mode, "$point:wait=$file");

	(my $phase = $point) =~ s/move_//;
	$c->poll("SELECT count(*) FROM shardlet.moves WHERE open AND phase = '$phase'", '1');
	$c->kill9($c->shard($probe->{$side}));
	append_to_file($file, 'go');
	sleep 1;
	$c->start($c->shard($probe->{$side}));
	$c->psql_end($session);
	$probe->is_whole("$point: shard $probe->{$side} dies and comes back");
	is($probe->last_phase, 'done', "$point: it goes on where it was");
}

# The network breaks: a command does not arrive, or its answer does not.  What is run as a
# table's owner is a function's, whose answer begins with its name as a column.
sub lose
{
	my ($mode, $side, $text) = @_;
	my $type = $text eq 'run_as_owner' ? 'T' : 'C';

	$c->proxy($_)->rule(cut => $side, text => $text, $side eq 'server' ? (type => $type) : ()) for 1, 2;
	$c->psql_end($probe->start_move($mode, ''));
	$probe->settle;
	ok((grep { { $c->proxy($_)->counts }->{struck} } 1, 2), "$text is lost on its way from the $side");
	$c->proxy($_)->normal for 1, 2;
	$probe->is_whole("$mode: finished or undone by itself");
	return;
}

lose('online', 'client', 'COPY public');
lose('online', 'server', 'CREATE SUBSCRIPTION');
lose('online', 'server', 'PREPARE TRANSACTION');
lose('online', 'client', 'COMMIT PREPARED');
lose('read_only', 'client', 'DELETE ');
lose('read_only', 'server', 'run_as_owner');

# An error that stays: everything is as it was.
my ($status, undef, $stderr) = $c->psql_end($probe->start_move('read_only', 'move_verify:error'));
is($c->sqlstate_of($status, $stderr), '55000', 'an error');
like($stderr, qr/DETAIL:  fault move_verify/, 'that the caller is told');
$probe->is_whole('undone by itself');
is($probe->owner, $probe->{from}, 'at its old place');
is($probe->last_phase, 'failed', 'failed');
is($c->sqlstate('CALL shardlet.resume_move(' . $probe->last_move . ')'), '', 'it can be begun anew');
is($probe->owner, $probe->{to}, 'at its new place');
$probe->is_whole('whole');

# The target goes for good: the source takes writes again, the rest waits.
my $file = "$folder/last";
my $session = $probe->start_move('read_only', "move_verify:wait=$file");
$c->poll(q{SELECT count(*) FROM shardlet.moves WHERE open AND phase = 'verify'}, '1');
$c->kill9($c->shard($probe->{to}));
append_to_file($file, 'go');
ok($c->poll(qq{SELECT state FROM shardlet.shardlets WHERE shardlet = $probe->{shardlet}}, 'online', 60), 'given up');
is($probe->last_phase, 'undo_remove', 'rows have to be removed there');
my $key = $c->sql(q{SELECT k FROM generate_series(1, 100) k WHERE shardlet.route('mv', k) = '} . $probe->{from} . q{' LIMIT 1});
is($c->sqlstate("UPDATE customers SET name = name WHERE id = $key"), '', 'the source takes writes');
is($c->sqlstate("SELECT shardlet.alter_shardlet($probe->{shardlet}, state => 'read_only')"), 'SL008', 'the move is not over');
$c->start($c->shard($probe->{to}));
$c->psql_end($session);
$probe->is_whole('removed when the shard is back');

# Cancelled, and the client that waits is gone.
$session = $probe->start_move('read_only', "move_copy:wait=$folder/never");
$c->poll(q{SELECT count(*) FROM shardlet.moves WHERE open AND phase = 'copy'}, '1');
$session->{psql}->kill_kill;
is($c->sqlstate("CALL shardlet.move_shardlet($probe->{shardlet}, '$probe->{to}', 'read_only')"), 'SL008', 'one move of a shardlet at a time');
my $cancel = $c->psql_begin('CALL shardlet.cancel_move(' . $probe->last_move . ')');
sleep 0.3;
append_to_file("$folder/never", 'go');
($status, undef, $stderr) = $c->psql_end($cancel);
is($c->sqlstate_of($status, $stderr), '', 'cancelled');
is($probe->last_phase, 'cancelled', 'and undone');
$probe->is_whole('after the cancel');

# A shard that keeps nothing is emptied at once.
$probe->make_one;
lose('online', 'client', 'TRUNCATE ');
lose('read_only', 'server', 'run_as_owner');

done_testing();
