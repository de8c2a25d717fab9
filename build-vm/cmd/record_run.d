build-vm/cmd/record_run.o: src/cmd/record_run.c src/cmd/record.h \
 src/sink/sink.h src/engine/engine.h src/probe.h src/record.h \
 src/record.h src/target/tasks.h src/capture/features.h \
 src/capture/session.h src/capture/attach.h src/capture/ring.h \
 src/cmd/cmd.h src/target/command.h src/target/process.h src/util/log.h \
 src/util/names.h
src/cmd/record.h:
src/sink/sink.h:
src/engine/engine.h:
src/probe.h:
src/record.h:
src/record.h:
src/target/tasks.h:
src/capture/features.h:
src/capture/session.h:
src/capture/attach.h:
src/capture/ring.h:
src/cmd/cmd.h:
src/target/command.h:
src/target/process.h:
src/util/log.h:
src/util/names.h:
