
# WireClient
#	A session that speaks the protocol itself, so that a test sees everything a
#	driver sees: columns with their types, every field of an error, portals that
#	are read in parts, what comes of several statements in one message.
#
#	my $session = WireClient->new($node, 'app');
#	my ($result) = $session->simple('SELECT 1 AS a');
#	print "$result->{tag}: $result->{rows}[0][0]\n";
#	($result) = $session->prepared('SELECT $1 + 1', [1], [2]);
#
# A result is a hash:
#	columns  [[name, type's oid, typmod] ...], or undef for a statement without rows
#	rows     [[value or undef ...] ...]
#	copied   [what COPY TO STDOUT sent ...], or undef
#	tag      'SELECT 1', or undef after an error
#	error    undef, or its fields by their code (C is the SQLSTATE); code 'lost'
#	         means that the session ended and 'timeout' that no answer came
#
# A session that was lost connects again at its next statement.  Values are
# text, as the server sent it.  Authentication must not ask for anything.

package WireClient;

use strict;
use warnings;

use IO::Select;
use IO::Socket::UNIX;
use Time::HiRes qw(sleep time);

sub new
{
	my ($class, $node, $database, %option) = @_;
	return bless {
		path => $node->host . '/.s.PGSQL.' . $node->port,
		user => scalar getpwuid($>),
		database => $database,
		timeout => $option{timeout} // 30,
		settings => $option{settings} // [],
	}, $class;
}

# One message with one or several statements; $copy is what COPY FROM STDIN gets.
sub simple
{
	my ($self, $sql, $copy) = @_;
	return $self->_lost if !$self->_connect;
	$self->_send('Q', "$sql\0");
	return $self->_results($copy);
}

# The same in two parts, for what happens meanwhile: "finish" waits for the results,
# "is_ready" says within $seconds whether there is something to read.
sub start
{
	my ($self, $sql) = @_;
	$self->_send('Q', "$sql\0") if $self->_connect;
	return;
}

sub is_ready
{
	my ($self, $seconds) = @_;
	return 1 if !$self->{socket} || length $self->{buffer};
	return scalar IO::Select->new($self->{socket})->can_read($seconds);
}

sub finish
{
	my ($self) = @_;
	return $self->{socket} ? $self->_results : $self->_lost;
}

# Parses a statement once and runs it with each list of parameters, up to one that
# is cancelled.  Returns a result for each; its "parameters" are the types that the
# server found.
sub prepared
{
	my ($self, $sql, @lists) = @_;
	my ($parsed, @results);

	return $self->_lost if !$self->_connect;
	$self->_send('P', pack 'Z*Z*n', 'oracle', $sql, 0);
	$self->_send('D', "Soracle\0");
	$self->_send('S', '');
	($parsed) = $self->_results;
	return $parsed if $parsed->{error};
	for my $list (@lists)
	{
		$self->_bind('', 'oracle', $list);
		$self->_send('D', "P\0");
		$self->_send('E', pack 'Z*N', '', 0);
		$self->_send('S', '');
		push @results, ($self->_results)[0];
		$results[-1]{parameters} = $parsed->{parameters};
		return @results if !$self->{socket};
		last if $results[-1]{error} && $results[-1]{error}{C} eq '57014';
	}
	$self->_send('C', "Soracle\0");
	$self->_send('S', '');
	$self->_results;
	return @results;
}

# Reads a statement through a portal in parts of $count rows; the session must be
# in a transaction.
sub portal
{
	my ($self, $sql, $count) = @_;
	my ($whole, $part);

	return $self->_lost if !$self->_connect;
	$self->_send('P', pack 'Z*Z*n', '', $sql, 0);
	$self->_bind('oracle', '', []);
	$self->_send('D', "Poracle\0");
	do
	{
		$self->_send('E', pack 'Z*N', 'oracle', $count);
		$self->_send('S', '');
		($part) = $self->_results;
		$whole //= { %$part, rows => [] };
		push @{ $whole->{rows} }, @{ $part->{rows} };
		@$whole{qw(tag error)} = @$part{qw(tag error)};
	} while ($part->{suspended} && $self->{socket});
	if ($self->{socket} && !$whole->{error})
	{
		$self->_send('C', "Poracle\0");
		$self->_send('S', '');
		$self->_results;
	}
	# The tag tells the rows of the last part.
	$whole->{tag} =~ s/^SELECT \d+$/'SELECT ' . @{ $whole->{rows} }/e if defined $whole->{tag};
	return $whole;
}

# Notices since the last call, their fields by code.
sub notices
{
	my ($self) = @_;
	return splice @{ $self->{notices} //= [] };
}

# 'I' outside a transaction, 'T' in one, 'E' in one that failed.
sub state
{
	my ($self) = @_;
	return $self->{state} // 'I';
}

sub close
{
	my ($self) = @_;
	if ($self->{socket})
	{
		$self->_send('X', '');
		$self->{socket}->close;
	}
	$self->{socket} = undef;
	return;
}

sub _bind
{
	my ($self, $portal, $statement, $values) = @_;
	my $body = pack 'Z*Z*nn', $portal, $statement, 0, scalar @$values;

	$body .= defined $_ ? pack('N/a*', $_) : pack('N', 0xFFFFFFFF) for @$values;
	$self->_send('B', $body . pack('n', 0));
	return;
}

# A server that has just crashed takes a while to come back.
sub _connect
{
	my ($self) = @_;
	my $until = time + $self->{timeout};

	return 1 if $self->{socket};
	do
	{
		$self->{socket} = IO::Socket::UNIX->new(Peer => $self->{path});
		if ($self->{socket})
		{
			binmode $self->{socket};
			$self->{buffer} = '';
			my $body = pack 'NZ*Z*Z*Z*Z*Z*x', 196608, user => $self->{user}, database => $self->{database},
				client_encoding => 'UTF8';
			print { $self->{socket} } pack('N', 4 + length $body) . $body;
			$self->{socket}->flush;
			if (!($self->_results)[0]{error})
			{
				for my $setting (@{ $self->{settings} })
				{
					my ($result) = $self->simple($setting);
					die "$setting: $result->{error}{M}\n" if $result->{error};
				}
				return 1;
			}
			$self->{socket} = undef;
		}
		sleep 0.2;
	} while (time < $until);
	return 0;
}

sub _send
{
	my ($self, $type, $body) = @_;
	local $SIG{PIPE} = 'IGNORE';
	my $message = $type . pack('N', 4 + length $body) . $body;
	my $sent = 0;

	return if !$self->{socket};
	while ($sent < length $message)
	{
		my $count = syswrite $self->{socket}, $message, length($message) - $sent, $sent;
		last if !$count;
		$sent += $count;
	}
	return;
}

# Everything up to the moment the server is ready again.
sub _results
{
	my ($self, $copy) = @_;
	my @done;
	my $result = _empty();
	my $used;

	while (1)
	{
		my ($type, $body) = $self->_message;

		if (!defined $type || $type eq '')
		{
			$self->{socket} = undef;
			$self->{state} = 'I';
			# What the server said last, it if said something, is the better news.
			$result->{error}{C} //= defined $type ? 'timeout' : 'lost';
			return (@done, $result);
		}
		if ($type eq 'D')
		{
			push @{ $result->{rows} }, _values($body);
		}
		elsif ($type eq 'T')
		{
			$result->{columns} = _columns($body);
			$used = 1;
		}
		elsif ($type eq 't')
		{
			(undef, @{ $result->{parameters} }) = unpack 'nN*', $body;
			$used = 1;
		}
		elsif ($type eq 'C' || $type eq 's' || $type eq 'E' || $type eq 'I')
		{
			$result->{tag} = unpack 'Z*', $body if $type eq 'C';
			$result->{suspended} = 1 if $type eq 's';
			$result->{error} = _fields($body) if $type eq 'E';
			push @done, $result;
			$result = _empty();
			$used = 0;
		}
		elsif ($type eq 'd')
		{
			push @{ $result->{copied} }, $body;
		}
		elsif ($type eq 'H')
		{
			$result->{copied} = [];
		}
		elsif ($type eq 'G')
		{
			$self->_send('d', $copy) if defined $copy && $copy ne '';
			$self->_send('c', '');
		}
		elsif ($type eq 'N')
		{
			push @{ $self->{notices} }, _fields($body);
		}
		elsif ($type eq 'R')
		{
			die "the server asks for a password\n" if unpack('N', $body) != 0;
		}
		elsif ($type eq 'Z')
		{
			$self->{state} = $body;
			push @done, $result if $used || !@done;
			return @done;
		}
	}
}

sub _empty
{
	return { columns => undef, rows => [], copied => undef, tag => undef, error => undef };
}

# Type and body of the next message; nothing at the end of the session, an empty
# type when none comes in time.
sub _message
{
	my ($self) = @_;
	my $until = time + $self->{timeout};

	while (1)
	{
		if (length $self->{buffer} >= 5)
		{
			my ($type, $length) = unpack 'aN', $self->{buffer};
			if (length $self->{buffer} >= 1 + $length)
			{
				my $body = substr $self->{buffer}, 5, $length - 4;
				substr $self->{buffer}, 0, 1 + $length, '';
				return ($type, $body);
			}
		}
		my $left = $until - time;
		return ('', '') if $left <= 0 || !IO::Select->new($self->{socket})->can_read($left);
		return if !sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
	}
}

sub _values
{
	my ($body) = @_;
	my $count = unpack 'n', $body;
	my $at = 2;
	my @values;

	for (1 .. $count)
	{
		my $length = unpack "x${at}N", $body;
		$at += 4;
		if ($length == 0xFFFFFFFF)
		{
			push @values, undef;
			next;
		}
		push @values, substr $body, $at, $length;
		$at += $length;
	}
	return \@values;
}

sub _columns
{
	my ($body) = @_;
	my ($count, $rest) = unpack 'na*', $body;
	my @columns;

	for (1 .. $count)
	{
		(my ($name, undef, undef, $type, undef, $typmod), $rest) = unpack 'Z*NnNnl>xxa*', $rest;
		push @columns, [ $name, $type, $typmod ];
	}
	return \@columns;
}

sub _fields
{
	my ($body) = @_;
	return { map { substr($_, 0, 1) => substr($_, 1) } grep { $_ ne '' } split /\0/, $body };
}

sub _lost
{
	my ($self) = @_;
	return { %{ _empty() }, error => { C => 'lost', M => "no connection to $self->{database}" } };
}

1;
