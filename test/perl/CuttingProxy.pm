
# CuttingProxy
#	Stands between router and shard, and loses exactly what it is told to.
#
#	my $p = CuttingProxy->new(host => '127.0.0.1', port => $node->port);
#	... connect to $p->port ...
#	$p->rule(cut => 'server', text => 'PREPARE TRANSACTION');
#	$p->normal;
#	$p->reset;
#
# rule(action => side, condition) sets what happens to one message of a side,
# 'client' (the router) or 'server' (the shard):
#	cut			both connections are reset in place of the message
#	swallow		the message is lost, everything else goes on
#	blackhole	nothing is forwarded any more, sockets stay open; until normal,
#				which forwards what waited, as a network does when it is back
#	mute		the same for this connection alone
# and whatever %alteration has a function for (FuzzingProxy.pm): the message is
# replaced by what that makes of it; if its name begins with "endless", that is sent
# to the router again and again, over all connections, until normal, and nothing else
# over this one.
# Conditions, all of which must hold:
#	nth  => 1	the nth such message from now on, over all connections
#	type => 'Q'	its type
#	text => ''	its contents hold this string
#
# reset resets all connections, with what waited, and forwards again.
#
# counts returns how many messages of each side were seen since the last normal
# or rule, those of the log-in included, and whether the rule has struck; types the
# types of the server's, one character each.
#
# The proxy is a process of its own, because the test sits in psql while
# messages flow.  Commands go over a socket pair and are answered, so a rule is
# in force when rule returns; when the test dies the socket closes and the proxy
# goes too.  Requests for encryption are declined on the spot: what is framed
# can be counted.

package CuttingProxy;

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Socket qw(AF_UNIX PF_UNSPEC SOCK_STREAM SOL_SOCKET SO_LINGER);

use constant CANCEL_REQUEST => 80877102;
use constant SSL_REQUEST    => 80877103;
use constant GSS_REQUEST    => 80877104;

# What may be made of a message, by name; known when the proxy is made.
our %alteration;

# A side that does not read stops the other from being read.
use constant MAX_WAITING => 1024 * 1024;

sub new
{
	my ($class, %option) = @_;
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 64, ReuseAddr => 1)
	  or die "could not listen: $!";
	socketpair(my $ours, my $theirs, AF_UNIX, SOCK_STREAM, PF_UNSPEC)
	  or die "socketpair: $!";

	my $pid = fork() // die "could not fork: $!";
	if ($pid == 0)
	{
		close $ours;

		# prove waits until no process holds the test's output any more.
		open STDIN,  '<', '/dev/null';
		open STDOUT, '>', '/dev/null';
		open STDERR, '>', '/dev/null';
		$SIG{$_} = 'DEFAULT' for qw(TERM INT);
		$SIG{PIPE} = 'IGNORE';
		eval { _serve($listener, $theirs, %option) };
		POSIX::_exit(0);
	}
	close $theirs;
	return bless {
		pid => $pid, control => $ours, port => $listener->sockport, owner => $$
	}, $class;
}

sub port
{
	my ($self) = @_;
	return $self->{port};
}

sub rule
{
	my ($self, $action, $side, %condition) = @_;
	$self->_command($action, $side, $condition{nth} // 1,
		$condition{type} // '', $condition{text} // '');
	return;
}

sub normal
{
	my ($self) = @_;
	$self->_command('normal');
	return;
}

sub reset
{
	my ($self) = @_;
	$self->_command('reset');
	return;
}

sub counts
{
	my ($self) = @_;
	my ($client, $server, $struck) = split ' ', $self->_command('counts');
	return (client => $client, server => $server, struck => $struck);
}

sub types
{
	my ($self) = @_;
	my $answer = $self->_command('types');
	chomp $answer;
	return $answer;
}

sub stop
{
	my ($self) = @_;
	my $pid = delete $self->{pid} // return;
	local $?;
	kill 'KILL', $pid;
	waitpid $pid, 0;
	return;
}

# Only in the process that made it: a forked child has a copy of the object.
sub DESTROY
{
	my ($self) = @_;
	$self->stop if $$ == $self->{owner};
	return;
}

sub _command
{
	my ($self, @word) = @_;
	syswrite $self->{control}, join("\t", @word) . "\n";
	my $answer = readline $self->{control};
	die "the proxy is gone" if !defined $answer;
	return $answer;
}

# From here on: the proxy process.
#
# An end is one socket of a pair: { socket, peer, side, in, out, framed }.  "in"
# holds bytes that are not a whole message yet, or may not be forwarded; "out"
# bytes that the socket has not taken yet.

my (%end, $rule, $blackhole, %count, $struck, $types, $endless);

sub _serve
{
	my ($listener, $control, %option) = @_;

	_forget();
	while (1)
	{
		my @reading = grep { !$_->{eof} && !$_->{mute} && length $_->{peer}{out} < MAX_WAITING } values %end;
		@reading = () if $blackhole;
		if (length $endless)
		{
			$_->{out} .= $endless for grep { $_->{side} eq 'client' && length $_->{out} < MAX_WAITING } values %end;
		}
		my $read = IO::Select->new($listener, $control, map { $_->{socket} } @reading);
		my $write = IO::Select->new(map { $_->{socket} } grep { length $_->{out} } values %end);
		my ($readable, $writable) = IO::Select->select($read, $write, undef);

		for my $socket (@{ $writable // [] })
		{
			_write($end{$socket}) if $end{$socket};
		}
		for my $socket (@{ $readable // [] })
		{
			if ($socket == $control)
			{
				_obey($control);
			}
			elsif ($socket == $listener)
			{
				_connect(scalar $listener->accept, %option);
			}
			else
			{
				_read($end{$socket}) if $end{$socket};
			}
		}
	}
}

sub _forget
{
	undef $rule;
	$blackhole = 0;
	$struck    = 0;
	$types     = '';
	$endless   = '';
	%count     = (client => 0, server => 0);
	return;
}

sub _obey
{
	my ($control) = @_;
	my $line = readline $control;
	POSIX::_exit(0) if !defined $line;
	chomp $line;
	my ($action, $side, $nth, $type, $text) = split /\t/, $line, -1;

	if ($action eq 'counts')
	{
		syswrite $control, "$count{client} $count{server} $struck\n";
		return;
	}
	if ($action eq 'types')
	{
		syswrite $control, "$types\n";
		return;
	}
	_forget();
	$_->{mute} = 0 for values %end;
	if ($action eq 'reset')
	{
		_cut($_) for grep { $_->{side} eq 'client' } values %end;
	}
	elsif ($action ne 'normal')
	{
		$rule = { action => $action, side => $side, nth => $nth, type => $type, text => $text };
	}

	# One that goes on can take its peer along, which is in the list too.
	for my $end (values %end)
	{
		_forward($end) if $end{ $end->{socket} };
	}
	syswrite $control, "done\n";
	return;
}

sub _connect
{
	my ($client, %option) = @_;
	return if !$client;
	my $server = IO::Socket::INET->new(PeerAddr => $option{host}, PeerPort => $option{port});
	if (!$server)
	{
		_reset($client);
		return;
	}
	my ($a, $b) = map { { socket => $_, in => '', out => '', eof => 0, mute => 0 } } $client, $server;
	@$a{qw(side peer framed)} = ('client', $b, 0);
	@$b{qw(side peer framed)} = ('server', $a, 1);
	for my $end ($a, $b)
	{
		$end->{socket}->blocking(0);
		$end{ $end->{socket} } = $end;
	}
	return;
}

sub _read
{
	my ($end) = @_;
	my $got = sysread $end->{socket}, $end->{in}, 65536, length $end->{in};
	return if !defined $got && $!{EAGAIN};
	if (!$got)
	{
		$end->{eof} = 1;

		# What is left is no message; the peer may have it all the same.
		$end->{peer}{out} .= $end->{in};
		$end->{in} = '';
		_close_if_done($end->{peer});
		return;
	}
	_forward($end);
	return;
}

# Passes the whole messages on, as far as the rule allows.
sub _forward
{
	my ($end) = @_;
	my $done = 0;

	while (!$blackhole && !$end->{mute})
	{
		my $head = $end->{framed} ? 5 : 4;
		last if length($end->{in}) - $done < $head;
		my $length = unpack('N', substr($end->{in}, $done + $head - 4, 4)) + $head - 4;
		last if length($end->{in}) - $done < $length;
		my $message = substr($end->{in}, $done, $length);

		if (!$end->{framed})
		{
			my $code = unpack 'N', substr($message, 4, 4);
			if ($code == SSL_REQUEST || $code == GSS_REQUEST)
			{
				$end->{out} .= 'N';
				$done += $length;
				next;
			}
			$end->{framed} = 1 if $code != CANCEL_REQUEST;
		}
		$count{ $end->{side} }++;
		$types .= substr($message, 0, 1) if $end->{side} eq 'server' && length $types < 10000;
		my $action = _strikes($end, $message) ? $rule->{action} : '';
		if ($action eq 'cut')
		{
			undef $rule;
			_cut($end);
			return;
		}
		if ($action eq 'blackhole')
		{
			$blackhole = 1;
			undef $rule;
			last;
		}
		if ($action =~ /^endless/)
		{
			$endless = $alteration{$action}->($message);
			$end->{mute} = 1;
			undef $rule;
			last;
		}
		if ($action eq 'mute')
		{
			$_->{mute} = 1 for $end, $end->{peer};
			undef $rule;
			last;
		}
		undef $rule if $action;
		$message = $alteration{$action} ? $alteration{$action}->($message) : '' if $action;
		$end->{peer}{out} .= $message;
		$done += $length;
	}
	substr($end->{in}, 0, $done, '');
	_write($_) for $end->{peer}, $end;
	return;
}

# Is this the message that the rule is about?
sub _strikes
{
	my ($end, $message) = @_;
	return 0 if !$rule || $rule->{side} ne $end->{side};
	return 0 if length $rule->{type} && substr($message, 0, 1) ne $rule->{type};
	return 0 if length $rule->{text} && index($message, $rule->{text}) < 0;
	return 0 if --$rule->{nth} > 0;
	$struck = 1;
	return 1;
}

sub _write
{
	my ($end) = @_;
	return if !length $end->{out} || !$end{ $end->{socket} };
	my $sent = syswrite $end->{socket}, $end->{out};
	if (defined $sent)
	{
		substr($end->{out}, 0, $sent, '');
	}
	elsif (!$!{EAGAIN})
	{
		$end->{out} = '';
	}
	_close_if_done($end);
	return;
}

# Closes both ends once one side has hung up and the other has got everything.
sub _close_if_done
{
	my ($end) = @_;
	return if !$end->{peer}{eof} || length $end->{out};
	for ($end, $end->{peer})
	{
		delete $end{ $_->{socket} };
		close $_->{socket};
	}
	delete $end->{peer}{peer};
	delete $end->{peer};
	return;
}

sub _cut
{
	my ($end) = @_;
	for ($end, $end->{peer})
	{
		delete $end{ $_->{socket} };
		_reset($_->{socket});
	}
	delete $end->{peer}{peer};
	delete $end->{peer};
	return;
}

# With a linger time of zero, closing sends a reset.
sub _reset
{
	my ($socket) = @_;
	setsockopt $socket, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0);
	close $socket;
	return;
}

1;
