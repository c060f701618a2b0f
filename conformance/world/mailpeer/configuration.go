package mailpeer

// The smallest configurations with which Postfix and Dovecot run beside a system's own ones, on chosen loopback ports.
// Mail is stored as root's: nothing here leaves the directory.

const dovecotConfiguration = `
base_dir = @DIR@/dovecot
state_dir = @DIR@/dovecot
log_path = @DIR@/mail.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = yes
ssl_cert = <@DIR@/cert.pem
ssl_key = <@DIR@/key.pem
disable_plaintext_auth = no
auth_mechanisms = plain login
mail_location = maildir:@DIR@/mail/%u
first_valid_uid = 1
passdb {
  driver = static
  args = password=@PASSWORD@
}
userdb {
  driver = static
  args = uid=mail gid=mail home=@DIR@/mail/%u allow_all_users=yes
}
service imap-login {
  inet_listener imap {
    port = @IMAP@
  }
  inet_listener imaps {
    port = 0
  }
}
service lmtp {
  inet_listener lmtp {
    address = 127.0.0.1
    port = @LMTP@
  }
}
service auth {
  unix_listener @DIR@/dovecot/smtp-auth {
    mode = 0666
  }
}
`

const postfixMain = `
compatibility_level = 3.6
config_directory = @DIR@/postfix
queue_directory = @DIR@/queue
data_directory = @DIR@/data
maillog_file = @DIR@/mail.log
maillog_file_prefixes = /
myhostname = mail.@DOMAIN@
mydestination = @DOMAIN@
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
alias_database =
local_recipient_maps =
local_transport = lmtp:inet:127.0.0.1:@LMTP@
default_transport = error:5.3.2 loopback only
always_bcc = @JOURNAL@
smtpd_recipient_restrictions =
  check_recipient_access inline:{ {@LATER@ = 450 4.2.1 try again later}, {@NOBODY@ = 550 5.1.1 no such user} },
  permit_mynetworks, reject
smtpd_tls_security_level = may
smtpd_tls_chain_files = @DIR@/key.pem, @DIR@/cert.pem
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = @DIR@/dovecot/smtp-auth
smtpd_peername_lookup = no
smtputf8_enable = yes
notify_classes =
`

const postfixMaster = `
127.0.0.1:@SMTP@ inet n - n - - smtpd
pickup    unix  n       -       n       60      1       pickup
tlsmgr    unix  -       -       n       1000?   1       tlsmgr
cleanup   unix  n       -       n       -       0       cleanup
qmgr      unix  n       -       n       300     1       qmgr
rewrite   unix  -       -       n       -       -       trivial-rewrite
bounce    unix  -       -       n       -       0       bounce
defer     unix  -       -       n       -       0       bounce
trace     unix  -       -       n       -       0       bounce
verify    unix  -       -       n       -       1       verify
flush     unix  n       -       n       1000?   0       flush
proxymap  unix  -       -       n       -       -       proxymap
smtp      unix  -       -       n       -       -       smtp
relay     unix  -       -       n       -       -       smtp
showq     unix  n       -       n       -       -       showq
error     unix  -       -       n       -       -       error
retry     unix  -       -       n       -       -       error
discard   unix  -       -       n       -       -       discard
lmtp      unix  -       -       n       -       -       lmtp
anvil     unix  -       -       n       -       1       anvil
scache    unix  -       -       n       -       1       scache
postlog   unix-dgram n  -       n       -       1       postlogd
`
